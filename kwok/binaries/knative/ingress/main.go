// The lab's ingress for Knative: marks KIngresses of its class Ready, and sends each request, by its Host, to the
// next endpoint of the Service that the KIngress names.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	netapi "knative.dev/networking/pkg/apis/networking"
	"knative.dev/networking/pkg/apis/networking/v1alpha1"
	"knative.dev/networking/pkg/client/clientset/versioned"
	"knative.dev/networking/pkg/client/informers/externalversions"
	listers "knative.dev/networking/pkg/client/listers/networking/v1alpha1"
	netheader "knative.dev/networking/pkg/http/header"
	"knative.dev/networking/pkg/http/proxy"
	"knative.dev/pkg/network"

	"net/http/httputil"
)

const (
	idleConnections = 1000 // to one endpoint; as in Knative's own proxies
	retries         = 10   // of a status that could not be written
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an account that may write the status of KIngresses")
	listen := flag.String("listen", "", "HOST:PORT")
	class := flag.String("class", "", "the ingress class that is served")
	internal := flag.String("internal-domain", "", "of the Service that leads here, for requests from inside")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst, config.WarningHandler = 500, 1000, rest.NoWarnings{}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	networking := versioned.NewForConfigOrDie(config)
	ingresses := externalversions.NewSharedInformerFactory(networking, 0)
	core := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	lister := ingresses.Networking().V1alpha1().Ingresses().Lister()
	table := newTable(core.Core().V1().Endpoints().Lister())
	marker := &marker{networking, lister, *class, *internal,
		workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
	changed := func(obj any) {
		table.setRules(rulesOf(lister, *class))
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			marker.queue.Add(name)
		}
	}
	if _, err := ingresses.Networking().V1alpha1().Ingresses().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed,
	}); err != nil {
		log.Fatal(err)
	}
	core.Start(ctx.Done())
	core.WaitForCacheSync(ctx.Done()) // first: a Ready ingress must know its endpoints
	ingresses.Start(ctx.Done())
	ingresses.WaitForCacheSync(ctx.Done())
	go marker.run(ctx)

	server := network.NewServer(*listen, serve(table))
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func rulesOf(lister listers.IngressLister, class string) map[string][]v1alpha1.HTTPIngressPath {
	all, _ := lister.List(everything)
	rules := map[string][]v1alpha1.HTTPIngressPath{}
	for _, ingress := range all {
		if ingress.Annotations[netapi.IngressClassAnnotationKey] != class || ingress.DeletionTimestamp != nil {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			for _, host := range rule.Hosts {
				if rule.HTTP != nil {
					rules[host] = append(rules[host], rule.HTTP.Paths...)
				}
			}
		}
	}
	return rules
}

// Writes the status that Knative's Route waits for. The table already has the rules: it is written first.
type marker struct {
	client          versioned.Interface
	lister          listers.IngressLister
	class, internal string
	queue           workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func (m *marker) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		m.queue.ShutDown()
	}()
	for {
		name, stopped := m.queue.Get()
		if stopped {
			return
		}
		if err := m.mark(ctx, name); err != nil && m.queue.NumRequeues(name) < retries {
			m.queue.AddRateLimited(name)
		} else {
			m.queue.Forget(name)
		}
		m.queue.Done(name)
	}
}

func (m *marker) mark(ctx context.Context, name cache.ObjectName) error {
	found, err := m.lister.Ingresses(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || found.Annotations[netapi.IngressClassAnnotationKey] != m.class {
		return nil
	}
	ingress := found.DeepCopy()
	here := []v1alpha1.LoadBalancerIngressStatus{{DomainInternal: m.internal}}
	ingress.Status.InitializeConditions()
	ingress.Status.MarkNetworkConfigured()
	ingress.Status.MarkLoadBalancerReady(here, here)
	ingress.Status.ObservedGeneration = ingress.Generation
	if equality.Semantic.DeepEqual(ingress.Status, found.Status) {
		return nil
	}
	_, err = m.client.NetworkingV1alpha1().Ingresses(name.Namespace).UpdateStatus(ctx, ingress, metav1.UpdateOptions{})
	return err
}

func serve(table *table) http.Handler {
	reverse := &httputil.ReverseProxy{
		Transport:     network.NewProxyAutoTransport(idleConnections*10, idleConnections),
		FlushInterval: 20 * time.Millisecond,
		BufferPool:    proxy.NewBufferPool(),
		Rewrite: func(r *httputil.ProxyRequest) {
			chosen := r.In.Context().Value(choiceKey{}).(*choice)
			r.Out.URL = &url.URL{Scheme: "http", Host: chosen.address, Path: r.In.URL.Path,
				RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery}
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			for key, value := range chosen.headers {
				r.Out.Header.Set(key, value)
			}
			if chosen.rewriteHost != "" {
				r.Out.Header.Set(netheader.OriginalHostKey, r.In.Host)
				r.Out.Host = chosen.rewriteHost
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.Printf("%s: %v", r.Host, err)
			}
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && strings.HasPrefix(r.Host, "127.0.0.1") {
			return
		}
		chosen, status := table.choose(r)
		if chosen == nil {
			http.Error(w, http.StatusText(status), status)
			return
		}
		reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), choiceKey{}, chosen)))
	})
}

type choiceKey struct{}
