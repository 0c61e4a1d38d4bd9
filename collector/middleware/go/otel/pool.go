package sojournotel

import (
	"context"
	"database/sql"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// ObserveDB records the pool of connections of a database at each collection of the metrics, until stop is called. The
// name is the attribute queueing.pool.name; use few different ones. Of the options, [WithMeterProvider] applies.
//
//	queueing.pool.places         the maximum of open connections; not recorded if there is none
//	queueing.pool.places_in_use  connections in use
//	queueing.pool.waits          queries that had to wait for a connection
//	queueing.pool.wait_time      sum of the finished waits, in seconds
//
// All are figures of [sql.DB.Stats], which does not count the queries that wait now. Without a provider, nothing is
// recorded.
func ObserveDB(db *sql.DB, name string, options ...Option) (stop func()) {
	o := &observer{}
	for _, option := range options {
		option(o)
	}
	if o.meterProvider == nil {
		o.meterProvider = otel.GetMeterProvider()
	}
	meter := o.meterProvider.Meter(ScopeName)
	places, err := meter.Int64ObservableUpDownCounter(
		"queueing.pool.places",
		metric.WithUnit("{place}"),
		metric.WithDescription("Requests or queries that a pool inside the app serves at a time"),
	)
	handle(err)
	inUse, err := meter.Int64ObservableUpDownCounter(
		"queueing.pool.places_in_use",
		metric.WithUnit("{place}"),
		metric.WithDescription("Places of a pool inside the app that are in use"),
	)
	handle(err)
	waits, err := meter.Int64ObservableCounter(
		"queueing.pool.waits",
		metric.WithUnit("{wait}"),
		metric.WithDescription("Requests or queries that had to wait for a place of a pool inside the app"),
	)
	handle(err)
	waitTime, err := meter.Float64ObservableCounter(
		"queueing.pool.wait_time",
		metric.WithUnit("s"),
		metric.WithDescription("Sum of the finished waits for a place of a pool inside the app"),
	)
	handle(err)

	pool := metric.WithAttributes(attribute.String("queueing.pool.name", valid(name)))
	registration, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		stats := db.Stats()
		if stats.MaxOpenConnections > 0 {
			to.ObserveInt64(places, int64(stats.MaxOpenConnections), pool)
		}
		to.ObserveInt64(inUse, int64(stats.InUse), pool)
		to.ObserveInt64(waits, stats.WaitCount, pool)
		to.ObserveFloat64(waitTime, stats.WaitDuration.Seconds(), pool)
		return nil
	}, places, inUse, waits, waitTime)
	handle(err)
	return func() {
		if registration != nil {
			handle(registration.Unregister())
		}
	}
}

// handle reports that a pool is not recorded.
func handle(err error) {
	if err != nil {
		otel.Handle(fmt.Errorf("sojourn: the pool of a database: %w", err))
	}
}
