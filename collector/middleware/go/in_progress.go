package sojourn

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// A Counter is an [Observer] that also counts the requests in progress. Its methods are called by the goroutines of
// several requests at the same time.
type Counter interface {
	// Enter is called when a request reaches the middleware, before it waits for a place of [Limit]. It returns a
	// function that is called once, when the handler has returned or panicked, when the connection is hijacked or
	// switched to another protocol, or when the headers of a response of server-sent events (text/event-stream) are
	// sent; nil if that is of no interest.
	Enter(ctx context.Context, r *http.Request) (leave func())
}

// A Gauge is the number of requests in progress, waiting for a place of [Limit] included: those that have reached the
// middleware and whose handler has not returned, without WebSockets and server-sent events. Pass it to [InProgress].
//
// It is a handler that responds with the number in the text format of Prometheus:
//
//	sojourn_requests_in_progress{service="shop"} 3
//
// The zero value is ready for use.
type Gauge struct {
	// Service is the value of the label.
	Service string

	requests atomic.Int64
}

// InProgress counts the requests in progress in the gauge. Several middlewares can share one.
func InProgress(gauge *Gauge) Option {
	return func(m *middleware) { m.counters = append(m.counters, gauge) }
}

// Value returns the number of requests in progress now.
func (g *Gauge) Value() int64 { return g.requests.Load() }

// Enter implements [Counter].
func (g *Gauge) Enter(context.Context, *http.Request) func() {
	g.requests.Add(1)
	return g.leave
}

func (g *Gauge) leave() { g.requests.Add(-1) }

var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// ServeHTTP implements [http.Handler].
func (g *Gauge) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	const name = "sojourn_requests_in_progress"
	fmt.Fprintf(w, "# HELP %s Requests that the app has started and not finished, without WebSockets and server-sent events.\n", name)
	fmt.Fprintf(w, "# TYPE %s gauge\n%s{service=\"%s\"} %d\n", name, name, label.Replace(g.Service), g.Value())
}

// presence is one request among those in progress.
type presence struct {
	once   sync.Once
	leaves []func()
	m      *middleware
}

// enter calls the counters; nil if there are none.
func (m *middleware) enter(ctx context.Context, r *http.Request) *presence {
	if len(m.counters) == 0 {
		return nil
	}
	p := &presence{m: m}
	for _, counter := range m.counters {
		func() {
			defer m.warnOfPanic("an observer panicked at the start of a request")
			if leave := counter.Enter(ctx, r); leave != nil {
				p.leaves = append(p.leaves, leave)
			}
		}()
	}
	return p
}

// leave ends the request for the counters. Only the first call counts; it may be of another goroutine than the handler's.
func (p *presence) leave() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		for _, leave := range p.leaves {
			func() {
				defer p.m.warnOfPanic("an observer panicked at the end of a request")
				leave()
			}()
		}
	})
}

// hasEvents returns whether the response is a stream of server-sent events, which lasts until its client leaves.
func hasEvents(header http.Header) bool {
	content := header.Get("Content-Type")
	if len(content) < len("text/event-stream") {
		return false
	}
	kind, _, _ := mime.ParseMediaType(content)
	return kind == "text/event-stream"
}
