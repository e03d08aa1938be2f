// SPDX-License-Identifier: Apache-2.0
// A server of Java's own sockets whose TLS is the BoringSSL of Conscrypt: ConscryptServer CERTIFICATE KEY PORT, with an ECDSA key,
// on the loopback address. It answers one connection after the other.

import java.io.IOException;
import java.io.InputStream;
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
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import org.conscrypt.Conscrypt;

public class ConscryptServer {
	private static final String RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
	private static final char[] NO_SECRET = "none".toCharArray();

	private static PrivateKey key(Path path) throws Exception {
		String text = Files.readString(path).replaceAll("-----[A-Z ]*-----", "").replaceAll("\\s", "");
		return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
	}

	private static SSLContext context(Path certificate, Path key) throws Exception {
		KeyStore store = KeyStore.getInstance("PKCS12");
		store.load(null, null);
		try (InputStream bytes = Files.newInputStream(certificate)) {
			Certificate own = CertificateFactory.getInstance("X.509").generateCertificate(bytes);
			store.setKeyEntry("server", key(key), NO_SECRET, new Certificate[] {own});
		}
		KeyManagerFactory keys = KeyManagerFactory.getInstance("SunX509");
		keys.init(store, NO_SECRET);
		SSLContext context = SSLContext.getInstance("TLS", Conscrypt.newProvider());
		context.init(keys.getKeyManagers(), null, null);
		return context;
	}

	public static void main(String[] words) throws Exception {
		SSLContext context = context(Path.of(words[0]), Path.of(words[1]));
		InetAddress loopback = InetAddress.getLoopbackAddress();
		try (SSLServerSocket listening = (SSLServerSocket) context.getServerSocketFactory()
				.createServerSocket(Integer.parseInt(words[2]), 128, loopback)) {
			while (true) {
				try (SSLSocket peer = (SSLSocket) listening.accept()) {
					peer.getInputStream().read(new byte[4096]);
					peer.getOutputStream().write(RESPONSE.getBytes(StandardCharsets.US_ASCII));
				} catch (IOException gone) {
					continue;
				}
			}
		}
	}
}
