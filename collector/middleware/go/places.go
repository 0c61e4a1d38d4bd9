package sojourn

import (
	"container/list"
	"context"
	"sync"
)

// places are the numbers 1 to n, of which each serves one request at a time. Requests get a place in the order in which
// they ask for one. Free places are used in turn, so that all of them appear in the log.
type places struct {
	mu      sync.Mutex
	free    []int     // the next one first
	waiting list.List // of chan int with room for a place, the longest wait first
}

func newPlaces(n int) *places {
	p := &places{free: make([]int, n)}
	for i := range p.free {
		p.free[i] = i + 1
	}
	return p
}

// acquire returns a place as soon as the request is the first one and a place is free. If the context ends before, it
// returns the context's error.
func (p *places) acquire(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	if len(p.free) > 0 {
		place := p.free[0]
		// In place, so that the slice never grows.
		p.free = p.free[:copy(p.free, p.free[1:])]
		p.mu.Unlock()
		return place, nil
	}
	ready := make(chan int, 1)
	position := p.waiting.PushBack(ready)
	p.mu.Unlock()

	select {
	case place := <-ready:
		if err := ctx.Err(); err != nil {
			p.release(place)
			return 0, err
		}
		return place, nil
	case <-ctx.Done():
		p.mu.Lock()
		p.waiting.Remove(position)
		p.mu.Unlock()
		// release removes a request from the list before it sends, so that no place is sent from now on.
		select {
		case place := <-ready:
			p.release(place)
		default:
		}
		return 0, ctx.Err()
	}
}

// release gives the place to the request that waits the longest.
func (p *places) release(place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.waiting.Front(); first != nil {
		p.waiting.Remove(first).(chan int) <- place
		return
	}
	p.free = append(p.free, place)
}
