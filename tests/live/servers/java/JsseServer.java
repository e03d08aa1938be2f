// SPDX-License-Identifier: Apache-2.0
// A server with Java's own TLS (JSSE): JsseServer CERTIFICATE KEY PORT, on the loopback address. It answers each connection once,
// and closes it. The key is an EC key in PKCS #8. For each line that it reads it says how many it has answered.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;

public class JsseServer {
	private static final String RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

	private static final AtomicLong answered = new AtomicLong();

	static PrivateKey key(String file) throws Exception {
		String text = Files.readString(Path.of(file)).replaceAll("-----[A-Z ]+-----|\\s", "");
		return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
	}

	static SSLContext context(String certificate, String key) throws Exception {
		Collection<? extends Certificate> chain;
		try (InputStream file = new FileInputStream(certificate)) {
			chain = CertificateFactory.getInstance("X.509").generateCertificates(file);
		}
		KeyStore store = KeyStore.getInstance("PKCS12");
		store.load(null, null);
		store.setKeyEntry("server", key(key), new char[0], chain.toArray(new Certificate[0]));
		KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
		managers.init(store, new char[0]);
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(managers.getKeyManagers(), null, null);
		return context;
	}

	static void answer(SSLSocket peer) {
		try (peer) {
			peer.getInputStream().read(new byte[4096]);
			peer.getOutputStream().write(RESPONSE.getBytes(StandardCharsets.US_ASCII));
			answered.incrementAndGet();
		} catch (Exception error) {
			// the handshake failed, or the client left
		}
	}

	static void tell() {
		try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
			while (lines.readLine() != null) {
				System.out.println(answered.get());
			}
		} catch (IOException error) {
			// nobody asks any more
		}
	}

	public static void main(String[] words) throws Exception {
		SSLContext context = context(words[0], words[1]);
		InetAddress loopback = InetAddress.getByName("127.0.0.1");
		int port = Integer.parseInt(words[2]);
		new Thread(JsseServer::tell).start();
		try (SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(port, 128, loopback)) {
			while (true) {
				SSLSocket peer = (SSLSocket) server.accept();
				new Thread(() -> answer(peer)).start();
			}
		}
	}
}
