// Runs the server that Knative's autoscaler takes activators' statistics with (pkg/autoscaler/statserver), and
// writes each message as a line of JSON. The address it listens on is its argument.
package main

import (
	"encoding/json"
	"log"
	"os"

	"go.uber.org/zap"

	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/statserver"
)

func main() {
	messages := make(chan metrics.StatMessage, 100)
	server := statserver.New(os.Args[1], messages, zap.NewNop().Sugar(), nil)
	go func() { log.Fatal(server.ListenAndServe()) }()
	written := json.NewEncoder(os.Stdout)
	for message := range messages {
		if err := written.Encode(message); err != nil {
			log.Fatal(err)
		}
	}
}
