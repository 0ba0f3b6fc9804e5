// Plays the containers of all emulated pods of Knative revisions, on the pods' own addresses: queue-proxy by Knative's
// own code, and behind it a function that takes time and computes nothing (function.go). It runs in the network
// namespace in which every pod's address is local, and the address that a request was sent to tells the pod.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"knative.dev/pkg/network"
	"knative.dev/serving/pkg/apis/serving"
	"knative.dev/serving/pkg/networking"
)

// Requests to a pod that the watch has not delivered yet wait so long: a real pod listens before it is Ready.
const held = 5 * time.Second

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an account that plays kubelets")
	port := flag.Int("port", 0, "of /readyz and /pods")
	targets := flag.String("prometheus-targets", "", "file: where Prometheus finds the pods' metrics")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	client := kubernetes.NewForConfigOrDie(config)
	pods := newPods(client)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = serving.RevisionUID }))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pods.observe(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { pods.observe(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			pods.gone(obj.(*corev1.Pod))
		},
	}); err != nil {
		log.Fatal(err)
	}

	for number, handler := range map[int]func(*pod) http.Handler{
		networking.BackendHTTPPort:             func(p *pod) http.Handler { return p },
		networking.BackendHTTP2Port:            func(p *pod) http.Handler { return p },
		networking.AutoscalingQueueMetricsPort: func(p *pod) http.Handler { return p.statistics },
		networking.UserQueueMetricsPort:        func(p *pod) http.Handler { return p.metrics },
	} {
		go listen(network.NewServer(":"+strconv.Itoa(number), pods.dialled(handler)), pods)
	}
	go every(time.Second, func() { pods.report(time.Now()) })
	go every(time.Second, pods.targetsWriter(*targets))

	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	control := http.NewServeMux()
	control.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	control.HandleFunc("/pods", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(pods.views()) })
	go listen(&http.Server{Addr: ":" + strconv.Itoa(*port), Handler: control, ReadHeaderTimeout: time.Minute}, nil)
	<-ctx.Done()
}

func listen(server *http.Server, pods *pods) {
	if pods != nil {
		server.ConnState = pods.connection
	}
	log.Fatal(server.ListenAndServe())
}

func every(period time.Duration, act func()) {
	for range time.Tick(period) {
		act()
	}
}

// Answers as the pod that was dialled. Without one the connection is closed.
func (p *pods) dialled(handler func(*pod) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := p.await(r.Context(), localAddress(r.Context().Value(http.LocalAddrContextKey).(net.Addr)))
		if found == nil {
			panic(http.ErrAbortHandler)
		}
		handler(found).ServeHTTP(w, r)
	})
}

func localAddress(address net.Addr) string {
	host, _, _ := net.SplitHostPort(address.String())
	return host
}

// Tells Prometheus of the pods, when they have changed.
func (p *pods) targetsWriter(file string) func() {
	var last string
	return func() {
		type group struct {
			Targets []string          `json:"targets"`
			Labels  map[string]string `json:"labels"`
		}
		groups := []group{}
		for _, view := range p.views() {
			groups = append(groups, group{
				[]string{net.JoinHostPort(view.Address, strconv.Itoa(networking.UserQueueMetricsPort))},
				map[string]string{"job": "pods", "namespace": view.Namespace, "pod": view.Name},
			})
		}
		text, _ := json.Marshal(groups)
		if file == "" || string(text) == last {
			return
		}
		// Readers never see half a file.
		if err := os.WriteFile(file+".new", text, 0o644); err == nil && os.Rename(file+".new", file) == nil {
			last = string(text)
		}
	}
}
