package main

import (
	"log"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	netheader "knative.dev/networking/pkg/http/header"
	netstats "knative.dev/networking/pkg/http/stats"
	"knative.dev/pkg/network/handlers"
	"knative.dev/pkg/observability/semconv"
	"knative.dev/serving/pkg/http/handler"
	servingmetrics "knative.dev/serving/pkg/metrics"
	"knative.dev/serving/pkg/queue"
	"knative.dev/serving/pkg/queue/health"
)

// Constants of queue-proxy (v0.50.0, pkg/queue/sharedmain), which does not export them.
const (
	reportingPeriod = time.Second
	quietPeriod     = 30 * time.Second
	queuePerSlot    = 10
)

// One pod: its queue-proxy, and the function behind it.
type pod struct {
	uid                            types.UID
	namespace, name, node, address string
	started                        time.Time
	function                       *function
	queue                          http.Handler
	drainer                        *handlers.Drainer
	requests                       *netstats.RequestStats
	reporter                       *queue.ProtobufStatsReporter
	statistics, metrics            http.Handler // for the autoscaler; for Prometheus
	meters                         *metric.MeterProvider
	inFlight                       atomic.Int64
	answered                       atomic.Int64
	ending                         atomic.Bool
}

// What /pods shows of a pod, for tests and for the nodes' kubelets.
type view struct {
	Namespace   string  `json:"namespace"`
	Name        string  `json:"name"`
	Node        string  `json:"node"`
	Address     string  `json:"address"`
	Container   string  `json:"container"`
	CPUSeconds  float64 `json:"cpu_s"`
	MemoryBytes int64   `json:"memory_bytes"`
	StartedS    float64 `json:"started_s"`
	InFlight    int64   `json:"in_flight"`
	MostAtOnce  int     `json:"most_at_once"` // in the function, behind queue-proxy's limit
	Answered    int64   `json:"answered"`
	Ending      bool    `json:"ending"`
}

func newPod(object *corev1.Pod) *pod {
	environment := environmentOf(object, "queue-proxy")
	number := func(key string) int {
		value, _ := strconv.Atoi(environment[key])
		return value
	}
	seconds := func(key string) time.Duration { return time.Duration(number(key)) * time.Second }
	p := &pod{
		uid: object.UID, namespace: object.Namespace, name: object.Name, node: object.Spec.NodeName,
		address: object.Status.PodIP, started: time.Now(), function: newFunction(object),
		requests: netstats.NewRequestStats(time.Now()),
		reporter: queue.NewProtobufStatsReporter(object.Name, reportingPeriod),
	}
	p.statistics = queue.NewStatsHandler(p.reporter)
	p.meters, p.metrics = meters(object.Name, environment)

	// From here on as mainHandler of pkg/queue/sharedmain, innermost first.
	tracer := tracenoop.NewTracerProvider().Tracer("")
	var breaker *queue.Breaker
	if slots := number("CONTAINER_CONCURRENCY"); slots > 0 {
		breaker = queue.NewBreaker(queue.BreakerParams{
			QueueDepth: queuePerSlot * slots, MaxConcurrency: slots, InitialCapacity: slots,
		})
	}
	composed, err := queue.NewAppRequestMetricsHandler(p.meters, p.function, breaker)
	if err != nil {
		log.Fatal(err)
	}
	composed = queue.ProxyHandler(tracer, breaker, p.requests, composed)
	composed = queue.ForwardedShimHandler(composed)
	composed = handler.NewTimeoutHandler(composed, "request timeout",
		func(*http.Request) (time.Duration, time.Duration, time.Duration) {
			return seconds("REVISION_TIMEOUT_SECONDS"), seconds("REVISION_RESPONSE_START_TIMEOUT_SECONDS"),
				seconds("REVISION_IDLE_TIMEOUT_SECONDS")
		}, zap.NewNop().Sugar())
	p.drainer = &handlers.Drainer{
		QuietPeriod:           quietPeriod,
		HealthCheckUAPrefixes: []string{netheader.ActivatorUserAgent, netheader.AutoscalingUserAgent},
		Inner:                 queue.NewRouteTagHandler(composed),
		HealthCheck:           health.ProbeHandler(tracer, func() bool { return true }),
	}
	p.queue = otelhttp.NewHandler(p.drainer, "queue", otelhttp.WithMeterProvider(p.meters),
		otelhttp.WithTracerProvider(tracenoop.NewTracerProvider()),
		otelhttp.WithFilter(func(r *http.Request) bool { return !netheader.IsProbe(r) }))
	return p
}

// As SetupObservabilityOrDie of pkg/queue/sharedmain, with a registry of the pod's own.
func meters(name string, environment map[string]string) (*metric.MeterProvider, http.Handler) {
	attributes := []attribute.KeyValue{
		semconv.K8SContainerName("queue-proxy"),
		semconv.K8SNamespaceName(environment["SERVING_NAMESPACE"]),
		semconv.K8SPodName(name),
		semconv.ServiceName(environment["SERVING_SERVICE"]),
		semconv.ServiceInstanceID(name),
		servingmetrics.ServiceNameKey.With(environment["SERVING_SERVICE"]),
		servingmetrics.ConfigurationNameKey.With(environment["SERVING_CONFIGURATION"]),
		servingmetrics.RevisionNameKey.With(environment["SERVING_REVISION"]),
	}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		log.Fatal(err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader),
		metric.WithResource(resource.NewWithAttributes(semconv.SchemaURL, attributes...)))
	return provider, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	p.queue.ServeHTTP(w, r)
	if !netheader.IsProbe(r) {
		p.answered.Add(1)
	}
}

// Returns when queue-proxy would end: no request came for a while and none is left, or the grace period is over.
func (p *pod) drain(grace time.Duration) {
	quiet := make(chan struct{})
	go func() {
		p.drainer.Drain()
		close(quiet)
	}()
	deadline := time.After(grace)
	select {
	case <-quiet:
	case <-deadline:
		return
	}
	for p.inFlight.Load() > 0 {
		select {
		case <-time.After(lookAgain):
		case <-deadline:
			return
		}
	}
}

func (p *pod) report(now time.Time) { p.reporter.Report(p.requests.Report(now)) }

func (p *pod) close() { p.drainer.Reset() }

func (p *pod) view() view {
	used, most := p.function.usage()
	return view{
		Namespace: p.namespace, Name: p.name, Node: p.node, Address: p.address, Container: p.function.container,
		CPUSeconds: used, MemoryBytes: p.function.memoryBytes, StartedS: float64(p.started.UnixMilli()) / 1000,
		InFlight: p.inFlight.Load(), MostAtOnce: most, Answered: p.answered.Load(), Ending: p.ending.Load(),
	}
}

func environmentOf(object *corev1.Pod, container string) map[string]string {
	environment := map[string]string{}
	for _, c := range object.Spec.Containers {
		if c.Name == container {
			for _, variable := range c.Env {
				environment[variable.Name] = variable.Value
			}
		}
	}
	return environment
}
