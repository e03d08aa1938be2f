// SPDX-License-Identifier: Apache-2.0
// A server of Netty whose TLS is the BoringSSL of its tcnative library: NettyServer CERTIFICATE KEY PORT, on the loopback address.
// It answers each connection once, and closes it.

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.File;
import java.nio.charset.StandardCharsets;

public class NettyServer {
	private static final String RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

	static class Answer extends ChannelInboundHandlerAdapter {
		@Override
		public void channelRead(ChannelHandlerContext context, Object request) {
			((ByteBuf) request).release();
			ByteBuf response = Unpooled.copiedBuffer(RESPONSE, StandardCharsets.US_ASCII);
			context.writeAndFlush(response).addListener(ChannelFutureListener.CLOSE);
		}

		@Override
		public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
			context.close();
		}
	}

	public static void main(String[] words) throws Exception {
		SslContext tls = SslContextBuilder.forServer(new File(words[0]), new File(words[1]))
				.sslProvider(SslProvider.OPENSSL).build();
		ChannelInitializer<SocketChannel> pipeline = new ChannelInitializer<>() {
			@Override
			protected void initChannel(SocketChannel channel) {
				channel.pipeline().addLast(tls.newHandler(channel.alloc()), new Answer());
			}
		};
		new ServerBootstrap().group(new NioEventLoopGroup(1)).channel(NioServerSocketChannel.class).childHandler(pipeline)
				.bind("127.0.0.1", Integer.parseInt(words[2])).sync().channel().closeFuture().sync();
	}
}
