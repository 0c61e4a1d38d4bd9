package sojournotel

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// connector is a driver of database/sql: a query says that it has started, and waits until it is released.
type connector struct {
	started chan struct{}
	release chan struct{}
}

func newConnector() *connector {
	return &connector{started: make(chan struct{}, 100), release: make(chan struct{})}
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return conn{c}, nil }
func (c *connector) Driver() driver.Driver                        { return nil }

type conn struct{ *connector }

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }

func (c conn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.started <- struct{}{}
	<-c.release
	return rows{}, nil
}

type rows struct{}

func (rows) Columns() []string         { return []string{"number"} }
func (rows) Close() error              { return nil }
func (rows) Next([]driver.Value) error { return io.EOF }

// pools returns the values of the metrics of pools: name of the metric -> name of the pool -> value.
func (s *sdk) pools(t *testing.T) map[string]map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	values := map[string]map[string]float64{}
	add := func(metric, pool string, value float64) {
		if values[metric] == nil {
			values[metric] = map[string]float64{}
		}
		values[metric][pool] = value
	}
	for _, scope := range data.ScopeMetrics {
		for _, one := range scope.Metrics {
			if !strings.HasPrefix(one.Name, "queueing.pool.") {
				continue
			}
			switch sum := one.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range sum.DataPoints {
					add(one.Name, attributes(point.Attributes.ToSlice())["queueing.pool.name"].(string), float64(point.Value))
				}
			case metricdata.Sum[float64]:
				for _, point := range sum.DataPoints {
					add(one.Name, attributes(point.Attributes.ToSlice())["queueing.pool.name"].(string), point.Value)
				}
			}
		}
	}
	return values
}

// query runs n queries at the same time, and returns a function that waits for their end.
func query(t *testing.T, db *sql.DB, n int) (wait func()) {
	t.Helper()
	errs := make(chan error, n)
	for range n {
		go func() {
			result, err := db.Query("SELECT")
			if err == nil {
				err = result.Close()
			}
			errs <- err
		}()
	}
	return func() {
		t.Helper()
		for range n {
			select {
			case err := <-errs:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a query has not ended within 10 s")
			}
		}
	}
}

// eventually waits until a condition is true, for at most ten seconds.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func TestQueriesThatWaitForAConnection(t *testing.T) {
	s := newSDK()
	c := newConnector()
	db := sql.OpenDB(c)
	defer db.Close()
	db.SetMaxOpenConns(1)
	stop := ObserveDB(db, "main", WithMeterProvider(s.meters))

	begin := time.Now()
	wait := query(t, db, 3)
	<-c.started
	eventually(t, func() bool { return s.pools(t)["queueing.pool.waits"]["main"] == 2 }, "two waits")
	during := s.pools(t)
	if places, inUse := during["queueing.pool.places"]["main"], during["queueing.pool.places_in_use"]["main"]; places != 1 || inUse != 1 {
		t.Errorf("%v places, %v in use, want 1 and 1", places, inUse)
	}
	if seconds := during["queueing.pool.wait_time"]["main"]; seconds != 0 {
		t.Errorf("%v s of finished waits, want none", seconds)
	}
	// The length of the waits: both queries wait already.
	const shortest = 0.05
	time.Sleep(50 * time.Millisecond)
	close(c.release)
	wait()
	longest := time.Since(begin).Seconds()

	after := s.pools(t)
	if waits, inUse := after["queueing.pool.waits"]["main"], after["queueing.pool.places_in_use"]["main"]; waits != 2 || inUse != 0 {
		t.Errorf("%v waits, %v in use, want 2 and 0", waits, inUse)
	}
	if seconds := after["queueing.pool.wait_time"]["main"]; seconds < shortest || seconds > 2*longest {
		t.Errorf("%v s of waits, want %v to %v", seconds, shortest, 2*longest)
	}

	stop()
	if left := s.pools(t); len(left) != 0 {
		t.Errorf("after stop: %v, want none", left)
	}
}

func TestPoolWithoutALimitHasNoPlaces(t *testing.T) {
	s := newSDK()
	c := newConnector()
	db := sql.OpenDB(c)
	defer db.Close()
	defer ObserveDB(db, "main", WithMeterProvider(s.meters))()
	wait := query(t, db, 3)
	for range 3 {
		<-c.started
	}
	values := s.pools(t)
	if _, ok := values["queueing.pool.places"]; ok || values["queueing.pool.places_in_use"]["main"] != 3 {
		t.Errorf("%v, want no places and 3 in use", values)
	}
	close(c.release)
	wait()
	if waits := s.pools(t)["queueing.pool.waits"]["main"]; waits != 0 {
		t.Errorf("%v waits, want none", waits)
	}
}

func TestPoolsAreDistinguishedByTheirNames(t *testing.T) {
	s := newSDK()
	for name, limit := range map[string]int{"orders": 2, "users": 3} {
		db := sql.OpenDB(newConnector())
		defer db.Close()
		db.SetMaxOpenConns(limit)
		defer ObserveDB(db, name, WithMeterProvider(s.meters))()
	}
	places := s.pools(t)["queueing.pool.places"]
	if len(places) != 2 || places["orders"] != 2 || places["users"] != 3 {
		t.Errorf("places %v", places)
	}
}

func TestInstrumentsOfPoolsAreThoseOfTheTable(t *testing.T) {
	text, err := os.ReadFile("../../../../tests/vectors/prometheus.json")
	if err != nil {
		t.Skip(err)
	}
	var table struct {
		Inside struct {
			Metrics []struct {
				Kind     string
				Help     string
				OTelName string `json:"otel_name"`
				Unit     string
				Packages []string
			}
		}
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	s := newSDK()
	db := sql.OpenDB(newConnector())
	defer db.Close()
	db.SetMaxOpenConns(1)
	defer ObserveDB(db, "main", WithMeterProvider(s.meters))()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	metrics := map[string]metricdata.Metrics{}
	for _, one := range data.ScopeMetrics[0].Metrics {
		metrics[one.Name] = one
	}
	for _, described := range table.Inside.Metrics {
		if !slices.Contains(described.Packages, "go") {
			continue
		}
		one, ok := metrics[described.OTelName]
		delete(metrics, described.OTelName)
		if !ok || one.Unit != described.Unit || one.Description+"." != described.Help {
			t.Errorf("%s: %q, %q, want %q, %q", described.OTelName, one.Unit, one.Description, described.Unit, described.Help)
		}
		monotonic := false
		switch sum := one.Data.(type) {
		case metricdata.Sum[int64]:
			monotonic = sum.IsMonotonic
		case metricdata.Sum[float64]:
			monotonic = sum.IsMonotonic
		}
		if monotonic != (described.Kind == "counter") {
			t.Errorf("%s: monotonic is %v, want a %s", described.OTelName, monotonic, described.Kind)
		}
	}
	if len(metrics) != 0 {
		t.Errorf("metrics %v are not in the table", metrics)
	}
}
