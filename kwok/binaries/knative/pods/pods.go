package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// What KWOK waits for before it removes a deleted pod (kwok/stages/pod-delete-drained.yaml).
	drained    = "lab.surgekit.dev/drained"
	lookAgain  = 50 * time.Millisecond
	writeAgain = time.Second
	writes     = 5
)

// The pods that serve, by address.
type pods struct {
	client      kubernetes.Interface
	mutex       sync.Mutex
	serving     map[string]*pod
	waiting     map[string]chan struct{} // closed when a pod begins to serve at the address
	connections map[string]map[net.Conn]struct{}
}

func newPods(client kubernetes.Interface) *pods {
	return &pods{client: client, serving: map[string]*pod{}, waiting: map[string]chan struct{}{},
		connections: map[string]map[net.Conn]struct{}{}}
}

// A pod serves from the moment the node model has created it until it is drained.
func (p *pods) observe(object *corev1.Pod) {
	address := object.Status.PodIP
	p.mutex.Lock()
	found := p.serving[address]
	if found != nil && found.uid != object.UID {
		found = nil
	}
	if found == nil && runs(object) && object.DeletionTimestamp == nil {
		found = newPod(object)
		p.serving[address] = found
		if waiting, ok := p.waiting[address]; ok {
			close(waiting)
			delete(p.waiting, address)
		}
	}
	p.mutex.Unlock()
	if found != nil {
		found.function.resize(cpuLimit(object))
	}
	if object.DeletionTimestamp != nil && object.Annotations[drained] == "" {
		go p.end(object, found)
	}
}

// Ends a pod as the kubelet does: SIGTERM to queue-proxy, which drains, then SIGKILL at the end of the grace period.
func (p *pods) end(object *corev1.Pod, found *pod) {
	if found != nil {
		if !found.ending.CompareAndSwap(false, true) {
			return
		}
		found.drain(time.Until(object.DeletionTimestamp.Time)) // its time is when the grace period ends
		p.remove(object)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, object.UID, drained)
	for range writes {
		_, err := p.client.CoreV1().Pods(object.Namespace).Patch(
			context.Background(), object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil || object.DeletionGracePeriodSeconds == nil || *object.DeletionGracePeriodSeconds == 0 {
			return
		}
		log.Printf("%s/%s: %v", object.Namespace, object.Name, err)
		time.Sleep(writeAgain)
	}
}

func (p *pods) gone(object *corev1.Pod) { p.remove(object) }

func (p *pods) remove(object *corev1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	address := object.Status.PodIP
	if found := p.serving[address]; found == nil || found.uid != object.UID {
		return
	}
	p.serving[address].close()
	delete(p.serving, address)
	for connection := range p.connections[address] {
		connection.Close()
	}
}

func (p *pods) await(ctx context.Context, address string) *pod {
	p.mutex.Lock()
	found := p.serving[address]
	if found != nil {
		p.mutex.Unlock()
		return found
	}
	if p.waiting[address] == nil {
		p.waiting[address] = make(chan struct{})
	}
	arrived := p.waiting[address]
	p.mutex.Unlock()
	select {
	case <-arrived:
	case <-ctx.Done():
	case <-time.After(held):
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.serving[address]
}

// Keeps the open connections of each pod, which end with it.
func (p *pods) connection(connection net.Conn, state http.ConnState) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	address := localAddress(connection.LocalAddr())
	switch state {
	case http.StateNew:
		if p.connections[address] == nil {
			p.connections[address] = map[net.Conn]struct{}{}
		}
		p.connections[address][connection] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.connections[address], connection)
		if len(p.connections[address]) == 0 {
			delete(p.connections, address)
		}
	}
}

func (p *pods) report(now time.Time) {
	for _, pod := range p.all() {
		pod.report(now)
	}
}

func (p *pods) all() []*pod {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all := make([]*pod, 0, len(p.serving))
	for _, pod := range p.serving {
		all = append(all, pod)
	}
	slices.SortFunc(all, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	return all
}

func (p *pods) views() []view {
	views := []view{}
	for _, pod := range p.all() {
		views = append(views, pod.view())
	}
	return views
}

// Created, and not ended on its own.
func runs(object *corev1.Pod) bool {
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && object.Status.PodIP != ""
		}
	}
	return false
}
