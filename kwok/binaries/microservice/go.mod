module surgekit.dev/kwok/binaries/microservice

go 1.26.0
