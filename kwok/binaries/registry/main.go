// Serve an image registry from memory, without TLS: for a lab's real nodes to pull from.
package main

import (
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("address", "127.0.0.1:5000", "address and port to listen on")
	flag.Parse()
	server := &http.Server{Addr: *address, Handler: registry.New(), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
