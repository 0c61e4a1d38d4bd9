<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use OpenTelemetry\API\Globals;
use OpenTelemetry\API\Instrumentation\Configurator;
use OpenTelemetry\API\Metrics\RecordingMeterProvider;
use OpenTelemetry\API\Trace\RecordingSpan;
use OpenTelemetry\API\Trace\RecordingTracerProvider;
use OpenTelemetry\SDK\Metrics\MeterProvider;
use OpenTelemetry\SDK\Metrics\MetricExporter\InMemoryExporter as Metrics;
use OpenTelemetry\SDK\Metrics\MetricReader\ExportingReader;
use OpenTelemetry\SDK\Trace\SpanExporter\InMemoryExporter as Spans;
use OpenTelemetry\SDK\Trace\SpanProcessor\SimpleSpanProcessor;
use OpenTelemetry\SDK\Trace\TracerProvider;

/** Global providers that record: OpenTelemetry's SDK if it is installed, else those of opentelemetry.php. */
final class Recorder
{
    private ?object $spans = null;

    private ?object $metrics = null;

    private ?object $reader = null;

    public function __construct()
    {
        Globals::reset();
        if (!\class_exists(TracerProvider::class)) {
            RecordingSpan::$all = RecordingMeterProvider::$values = [];
            Globals::$tracers = new RecordingTracerProvider();
            Globals::$meters = new RecordingMeterProvider();

            return;
        }
        $this->spans = new Spans();
        $this->metrics = new Metrics();
        $this->reader = new ExportingReader($this->metrics);
        $tracers = new TracerProvider(new SimpleSpanProcessor($this->spans));
        $meters = MeterProvider::builder()->addReader($this->reader)->build();
        Globals::registerInitializer(
            static fn (Configurator $it): Configurator => $it->withTracerProvider($tracers)->withMeterProvider($meters),
        );
    }

    /** @return list<array<string, mixed>> the spans that have ended */
    public function spans(): array
    {
        if ($this->spans === null) {
            $ended = \array_filter(RecordingSpan::$all, static fn (RecordingSpan $span): bool => $span->endNs !== null);

            return \array_map(static fn (RecordingSpan $span): array => [
                'name' => $span->name,
                'kind' => $span->kind,
                'trace' => $span->getContext()->getTraceId(),
                'parent' => $span->parentSpanId,
                'id' => $span->getContext()->getSpanId(),
                'start' => $span->startNs,
                'end' => $span->endNs,
                'attributes' => $span->attributes,
                'events' => $span->events,
                'status' => $span->status,
            ], \array_values($ended));
        }

        return \array_map(static fn (object $span): array => [
            'name' => $span->getName(),
            'kind' => $span->getKind(),
            'trace' => $span->getTraceId(),
            'parent' => $span->getParentSpanId(),
            'id' => $span->getSpanId(),
            'start' => $span->getStartEpochNanos(),
            'end' => $span->getEndEpochNanos(),
            'attributes' => $span->getAttributes()->toArray(),
            'events' => \array_map(
                static fn (object $event): array => [
                    $event->getName(), $event->getEpochNanos(), $event->getAttributes()->toArray(),
                ],
                $span->getEvents(),
            ),
            'status' => $span->getStatus()->getCode(),
        ], $this->spans->getSpans());
    }

    /** @return list<array{string, string|null, float, array<string, mixed>}> name, unit, sum and attributes */
    public function delays(): array
    {
        if ($this->reader === null) {
            return RecordingMeterProvider::$values;
        }
        $this->reader->collect();
        $values = [];
        foreach ($this->metrics->collect() as $metric) {
            foreach ($metric->data->dataPoints as $point) {
                $values[] = [$metric->name, $metric->unit, $point->sum, $point->attributes->toArray()];
            }
        }

        return $values;
    }
}
