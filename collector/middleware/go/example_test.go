package sojourn_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	sojourn "sojourn/middleware"
)

// A server with places for eight requests at once.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "user %s\n", r.PathValue("id"))
	})
	measured := sojourn.New(sojourn.Limit(8))
	log.Fatal(http.ListenAndServe("127.0.0.1:8000", measured(mux)))
}

// fromProxy returns a request with the stamp of a proxy: only then the response has the headers.
func fromProxy(path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-Request-Start", fmt.Sprintf("t=%.3f", float64(time.Now().UnixMilli())/1000))
	return r
}

// A router without support sets its route for the current request.
func ExampleSetRoute() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sojourn.SetRoute(r.Context(), "/users/{id}")
	})
	w := httptest.NewRecorder()
	sojourn.New()(handler).ServeHTTP(w, fromProxy("/users/7"))
	fmt.Println(w.Header().Get("X-Route"))
	// Output: /users/{id}
}

// The route of a ServeMux in Go 1.22, or behind a middleware that copies the request.
func ExampleRoute() {
	mux := http.NewServeMux()
	mux.HandleFunc("/users/{id}", func(http.ResponseWriter, *http.Request) {})
	measured := sojourn.New(sojourn.Route(func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	}))
	w := httptest.NewRecorder()
	measured(mux).ServeHTTP(w, fromProxy("/users/7"))
	fmt.Println(w.Header().Get("X-Route"))
	// Output: /users/{id}
}

// A handler with its own semaphore: the wait for it is queueing delay.
func ExampleMarkStarted() {
	slots := make(chan struct{}, 2)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots <- struct{}{}
		defer func() { <-slots }()
		sojourn.MarkStarted(r.Context())
	})
	w := httptest.NewRecorder()
	sojourn.New(sojourn.MaxAge(time.Minute))(handler).ServeHTTP(w, fromProxy("/"))
	fmt.Println(w.Header().Get("X-Service-Time") != "")
	// Output: true
}
