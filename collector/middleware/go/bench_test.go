package sojourn

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// discard is a response that is not sent.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) Write(data []byte) (int, error) { return len(data), nil }
func (d discard) WriteHeader(int)                {}
func (d discard) Flush()                         {}

var answer = []byte("ok\n")

// BenchmarkMiddleware compares a handler that answers three bytes with the same handler behind the middleware. The
// difference of two lines is the cost of the middleware; cpu-ns/op includes the garbage collector's threads.
func BenchmarkMiddleware(b *testing.B) {
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = textPlain
		w.Write(answer)
	})
	for _, one := range []struct {
		name    string
		handler http.Handler
	}{
		{"bare", app},
		{"measured", New()(app)},
		{"limited", New(Limit(8))(app)},
	} {
		b.Run(one.name, func(b *testing.B) {
			r, err := http.NewRequest("GET", "http://shop.example/items/12345?color=red", nil)
			if err != nil {
				b.Fatal(err)
			}
			for name, value := range map[string]string{
				"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/130", "Accept": "text/html,application/json;q=0.9",
				"Accept-Encoding": "gzip, br", "X-Request-Id": "4bf92f3577b34da6a3ce929d0e0e4736",
				"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			} {
				r.Header.Set(name, value)
			}
			r.Header.Set("X-Request-Start", "t="+strconv.FormatFloat(float64(time.Now().UnixMilli())/1e3, 'f', 3, 64))
			w := discard{http.Header{}}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			for range b.N {
				clear(w.header)
				one.handler.ServeHTTP(w, r)
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

var textPlain = []string{"text/plain"}
