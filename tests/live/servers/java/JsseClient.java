// SPDX-License-Identifier: Apache-2.0
// A client with Java's own TLS (JSSE): JsseClient CERTIFICATE PORT. For each line that it reads, "VERSION trusting" or "VERSION
// doubting", it makes a connection to that port of the loopback address, with or without trust in the certificate, and says
// "VERSION MICROSECONDS" once its handshake is completed and the server has closed, or "failed". No session is resumed.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

public class JsseClient {
	static KeyStore trusted(String certificate) throws Exception {
		KeyStore store = KeyStore.getInstance("PKCS12");
		store.load(null, null);
		try (InputStream file = new FileInputStream(certificate)) {
			store.setCertificateEntry("server", CertificateFactory.getInstance("X.509").generateCertificate(file));
		}
		return store;
	}

	static SSLContext context(KeyStore trusted) throws Exception {
		TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		managers.init(trusted); // without one, those that come with Java
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(null, managers.getTrustManagers(), null);
		return context;
	}

	static String connect(SSLContext context, String version, int port) {
		try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port)) {
			socket.setEnabledProtocols(new String[] {version});
			long began = System.nanoTime();
			socket.startHandshake();
			long took = System.nanoTime() - began;
			socket.getInputStream().readAllBytes();
			return socket.getSession().getProtocol() + " " + took / 1000;
		} catch (IOException error) {
			return "failed";
		}
	}

	public static void main(String[] words) throws Exception {
		KeyStore trusted = trusted(words[0]);
		BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
		System.out.println("ready");
		for (String line = lines.readLine(); line != null; line = lines.readLine()) {
			String[] asked = line.split(" ");
			SSLContext context = context(asked[1].equals("trusting") ? trusted : null);
			System.out.println(connect(context, asked[0], Integer.parseInt(words[1])));
		}
	}
}
