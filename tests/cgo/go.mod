module both

go 1.21
