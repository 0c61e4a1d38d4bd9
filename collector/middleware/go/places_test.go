package sojourn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// count returns the number of requests that wait for a place.
func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}

func TestPlacesAreTakenInOrderOfArrival(t *testing.T) {
	p := newPlaces(1)
	held, err := p.acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan int, 50)
	var all sync.WaitGroup
	for i := range cap(order) {
		all.Add(1)
		go func() {
			defer all.Done()
			place, err := p.acquire(context.Background())
			if err != nil {
				t.Error(err)
			}
			order <- i
			p.release(place)
		}()
		eventually(t, "the request to wait", func() bool { return p.count() == i+1 })
	}
	p.release(held)
	all.Wait()
	close(order)
	var got []int
	for i := range order {
		got = append(got, i)
	}
	if !slices.IsSorted(got) || len(got) != cap(order) {
		t.Errorf("served in the order %v", got)
	}
}

func TestFreePlacesAreUsedInTurn(t *testing.T) {
	p := newPlaces(3)
	var got []int
	for range 7 {
		place, err := p.acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, place)
		p.release(place)
	}
	if want := []int{1, 2, 3, 1, 2, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("places %v, want %v", got, want)
	}
}

func TestEndOfContextLeavesTheQueue(t *testing.T) {
	p := newPlaces(1)
	held, _ := p.acquire(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := p.acquire(ctx)
		failed <- err
	}()
	eventually(t, "the request to wait", func() bool { return p.count() == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if p.count() != 0 {
		t.Errorf("%d requests wait, want 0", p.count())
	}
	p.release(held)
	if _, err := p.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of an ended context, want %v", err, context.Canceled)
	}
	if place, err := p.acquire(context.Background()); place != 1 || err != nil {
		t.Errorf("place %d, error %v, want place 1", place, err)
	}
}

// neverDone is a context that has ended although its channel does not say so yet.
type neverDone struct {
	context.Context
	ended atomic.Bool
}

func (c *neverDone) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestPlaceForAnEndedContextIsPassedOn(t *testing.T) {
	p := newPlaces(1)
	held, _ := p.acquire(context.Background())
	ctx := &neverDone{Context: context.Background()}
	failed := make(chan error)
	go func() {
		_, err := p.acquire(ctx)
		failed <- err
	}()
	eventually(t, "the request to wait", func() bool { return p.count() == 1 })
	ctx.ended.Store(true)
	p.release(held)
	if err := <-failed; !errors.Is(err, context.Canceled) || len(p.free) != 1 {
		t.Errorf("error %v, free places %v, want %v and a place", err, p.free, context.Canceled)
	}
}

// The context of the first request ends at the moment at which it gets the place.
func TestPlaceOfARequestThatLeavesIsNotLost(t *testing.T) {
	p := newPlaces(1)
	for range 2000 {
		held, err := p.acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if place, err := p.acquire(ctx); err == nil {
				p.release(place)
			}
		}()
		for p.count() == 0 {
			runtime.Gosched()
		}
		cancel()
		p.release(held)
		<-ended
		if len(p.free) != 1 || p.count() != 0 {
			t.Fatalf("free places %v, %d requests wait, want one place", p.free, p.count())
		}
	}
}

// Contexts end while places become free: no place is lost, and no two requests have the same one.
func TestPlacesAreNeverLostOrDoubled(t *testing.T) {
	const n, rounds = 3, 2000
	p := newPlaces(n)
	var inUse [n + 1]sync.Mutex
	var all sync.WaitGroup
	for i := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		all.Add(2)
		go func() {
			defer all.Done()
			if i%2 == 0 {
				cancel()
			}
		}()
		go func() {
			defer all.Done()
			defer cancel()
			place, err := p.acquire(ctx)
			if err != nil {
				return
			}
			if !inUse[place].TryLock() {
				t.Errorf("place %d is taken twice", place)
				return
			}
			inUse[place].Unlock()
			p.release(place)
		}()
	}
	all.Wait()
	slices.Sort(p.free)
	if want := []int{1, 2, 3}; !slices.Equal(p.free, want) || p.count() != 0 {
		t.Errorf("free places %v, want %v; %d requests wait", p.free, want, p.count())
	}
}

func TestLimitQueuesAndNamesItsPlaces(t *testing.T) {
	const n, requests = 2, 12
	var mu sync.Mutex
	running, most := 0, 0
	hold := make(chan struct{})
	middleware := New(Limit(n))
	server := serve(t, middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		<-hold
		mu.Lock()
		running--
		mu.Unlock()
	})))
	workers := make(chan string, requests)
	for range requests {
		go func() {
			response, err := server.Client().Do(refusedTo(t, server.URL))
			if err != nil {
				t.Error(err)
				workers <- ""
				return
			}
			response.Body.Close()
			workers <- response.Header.Get("X-Worker")
		}()
	}
	for range requests {
		hold <- struct{}{}
	}
	got := map[string]int{}
	for range requests {
		got[<-workers]++
	}
	if most > n {
		t.Errorf("%d requests at once, want at most %d", most, n)
	}
	for place := 1; place <= n; place++ {
		if name := fmt.Sprintf("%d.%d", os.Getpid(), place); got[name] == 0 {
			t.Errorf("no request was served by %s: %v", name, got)
		}
	}
	if len(got) != n {
		t.Errorf("workers %v, want %d", got, n)
	}
}

func TestRequestThatNeverGetsAPlaceIsAnswered503(t *testing.T) {
	started, hold := make(chan struct{}), make(chan struct{})
	handler := New(Limit(1))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		started <- struct{}{}
		<-hold
	}))
	first := make(chan struct{})
	go func() {
		defer close(first)
		handler.ServeHTTP(httptest.NewRecorder(), refused(httptest.NewRequest("GET", "/", nil)))
	}()
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, refused(httptest.NewRequest("GET", "/", nil)).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
	wantUnmeasured(t, w.Header())
	close(hold)
	<-first
}

func TestPanicReleasesThePlace(t *testing.T) {
	fail := true
	handler := New(Limit(1))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if fail {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() {
			if value := recover(); value != http.ErrAbortHandler {
				t.Errorf("panic %v, want %v", value, http.ErrAbortHandler)
			}
		}()
		handler.ServeHTTP(httptest.NewRecorder(), refused(httptest.NewRequest("GET", "/", nil)))
	}()
	fail = false
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, refused(httptest.NewRequest("GET", "/", nil)).WithContext(ctx))
	if w.Code != http.StatusOK {
		t.Errorf("status %d after a panic, want 200", w.Code)
	}
}

func TestNestedLimitsDoNotBlockThemselves(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	r := refused(httptest.NewRequest("GET", "/", nil)).WithContext(ctx)
	limited, other := New(Limit(1)), New(Limit(1))
	for name, handler := range map[string]http.Handler{
		"twice":                limited(limited(empty)),
		"inside another":       New()(limited(limited(empty))),
		"around another limit": limited(other(limited(other(empty)))),
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d, want 200", name, w.Code)
		}
		wantMeasured(t, w.Header())
	}
}

func TestLimitInsideAnotherMiddlewareApplies(t *testing.T) {
	started, hold := make(chan struct{}, 2), make(chan struct{})
	limited := New(Limit(1))
	handler := New()(limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		started <- struct{}{}
		<-hold
	})))
	var all sync.WaitGroup
	for range 2 {
		all.Add(1)
		go func() {
			defer all.Done()
			handler.ServeHTTP(httptest.NewRecorder(), refused(httptest.NewRequest("GET", "/", nil)))
		}()
	}
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, refused(httptest.NewRequest("GET", "/", nil)).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || len(started) != 0 {
		t.Errorf("status %d and %d more requests in service, want 503 and none", w.Code, len(started))
	}
	close(hold)
	all.Wait()
}
