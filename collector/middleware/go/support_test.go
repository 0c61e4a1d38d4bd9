package sojourn

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

const deadline = 20 * time.Second

var empty = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// observerFunc is an observer that is called at the end of a request.
type observerFunc func(Measurement)

func (f observerFunc) Begin(ctx context.Context, _ *http.Request, _ Measurement) (context.Context, func(Measurement)) {
	return ctx, f
}

// serve starts a real server; it is closed at the end of the test.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// refused gives a request a stamp that is refused: its response has all headers but X-Queueing-Delay.
func refused(r *http.Request) *http.Request {
	r.Header.Set("X-Request-Start", "junk")
	return r
}

// refusedTo returns such a request for a server.
func refusedTo(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return refused(r)
}

// fetch sends a request and returns the response and its body.
func fetch(t *testing.T, client *http.Client, method, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(refused(r))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// wantMeasured fails the test unless the response has each of the headers once.
func wantMeasured(t *testing.T, header http.Header) {
	t.Helper()
	for _, name := range []string{"X-Service-Time", "X-Worker"} {
		if len(header[name]) != 1 {
			t.Errorf("%s: %q, want one value", name, header[name])
		}
	}
}

// wantUnmeasured fails the test if the response has one of the headers.
func wantUnmeasured(t *testing.T, header http.Header) {
	t.Helper()
	for _, name := range []string{"X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route"} {
		if values, ok := header[name]; ok {
			t.Errorf("%s: %q, want none", name, values)
		}
	}
}

// eventually fails the test if the condition is not met in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", deadline, what)
		}
	}
}

// testLog is a log for the option Logger.
func testLog() (*bytes.Buffer, Option) {
	var text bytes.Buffer
	return &text, Logger(slog.New(slog.NewTextHandler(&text, nil)))
}
