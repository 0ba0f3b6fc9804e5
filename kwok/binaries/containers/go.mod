module surgekit.dev/kwok/binaries/containers

go 1.26.0
