module ssllatency/server

go 1.18
