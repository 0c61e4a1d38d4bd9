<?php

/*
 * The part of OpenTelemetry's API that the package calls, with its names, types and defaults, and a provider that
 * records. Used where neither the API nor the SDK is installed.
 */

declare(strict_types=1);

namespace OpenTelemetry\Context {
    interface ContextInterface
    {
        public function activate(): ScopeInterface;
    }

    interface ScopeInterface
    {
        public function detach(): int;
    }

    final class Context implements ContextInterface
    {
        /** @var list<ContextInterface> */
        public static array $stack = [];

        public function __construct(public readonly ?\OpenTelemetry\API\Trace\SpanInterface $span = null)
        {
        }

        public static function getCurrent(): ContextInterface
        {
            return self::$stack[\count(self::$stack) - 1] ?? self::getRoot();
        }

        public static function getRoot(): ContextInterface
        {
            return new self();
        }

        public function activate(): ScopeInterface
        {
            self::$stack[] = $this;

            return new class implements ScopeInterface {
                public function detach(): int
                {
                    \array_pop(Context::$stack);

                    return 0;
                }
            };
        }
    }
}

namespace OpenTelemetry\Context\Propagation {
    use OpenTelemetry\Context\Context;
    use OpenTelemetry\Context\ContextInterface;

    interface TextMapPropagatorInterface
    {
        /** @return list<string> */
        public function fields(): array;

        /** @param array<string, string> $carrier */
        public function extract($carrier, ?object $getter = null, ?ContextInterface $context = null): ContextInterface;
    }

    final class NoopTextMapPropagator implements TextMapPropagatorInterface
    {
        public function fields(): array
        {
            return [];
        }

        public function extract($carrier, ?object $getter = null, ?ContextInterface $context = null): ContextInterface
        {
            return $context ?? Context::getCurrent();
        }
    }
}

namespace OpenTelemetry\API\Trace\Propagation {
    use OpenTelemetry\API\Trace\NonRecordingSpan;
    use OpenTelemetry\API\Trace\SpanContext;
    use OpenTelemetry\Context\Context;
    use OpenTelemetry\Context\ContextInterface;
    use OpenTelemetry\Context\Propagation\TextMapPropagatorInterface;

    final class TraceContextPropagator implements TextMapPropagatorInterface
    {
        public static function getInstance(): self
        {
            return new self();
        }

        public function fields(): array
        {
            return ['traceparent', 'tracestate'];
        }

        public function extract($carrier, ?object $getter = null, ?ContextInterface $context = null): ContextInterface
        {
            $form = '/^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/D';
            if (\preg_match($form, $carrier['traceparent'] ?? '', $match) !== 1) {
                return $context ?? Context::getCurrent();
            }

            return new Context(new NonRecordingSpan(new SpanContext($match[1], $match[2], true)));
        }
    }
}

namespace OpenTelemetry\API\Trace {
    use OpenTelemetry\Context\Context;
    use OpenTelemetry\Context\ContextInterface;

    final class SpanKind
    {
        public const KIND_INTERNAL = 0;
        public const KIND_SERVER = 2;
    }

    final class StatusCode
    {
        public const STATUS_UNSET = 'Unset';
        public const STATUS_ERROR = 'Error';
    }

    final class SpanContext
    {
        public function __construct(
            public readonly string $traceId,
            public readonly string $spanId,
            private readonly bool $remote,
        ) {
        }

        public function getTraceId(): string
        {
            return $this->traceId;
        }

        public function getSpanId(): string
        {
            return $this->spanId;
        }

        public function isValid(): bool
        {
            return $this->traceId !== \str_repeat('0', 32);
        }

        public function isRemote(): bool
        {
            return $this->remote;
        }
    }

    interface SpanInterface
    {
        public function getContext(): SpanContext;

        public function isRecording(): bool;

        public function setAttributes(iterable $attributes): self;

        public function addEvent(string $name, iterable $attributes = [], ?int $timestamp = null): self;

        public function recordException(\Throwable $exception, iterable $attributes = []): self;

        public function updateName(string $name): self;

        public function setStatus(string $code, ?string $description = null): self;

        public function end(?int $endEpochNanos = null): void;

        public function storeInContext(ContextInterface $context): ContextInterface;
    }

    class NonRecordingSpan implements SpanInterface
    {
        public function __construct(private readonly SpanContext $context)
        {
        }

        public function getContext(): SpanContext
        {
            return $this->context;
        }

        public function isRecording(): bool
        {
            return false;
        }

        public function setAttributes(iterable $attributes): SpanInterface
        {
            return $this;
        }

        public function addEvent(string $name, iterable $attributes = [], ?int $timestamp = null): SpanInterface
        {
            return $this;
        }

        public function recordException(\Throwable $exception, iterable $attributes = []): SpanInterface
        {
            return $this;
        }

        public function updateName(string $name): SpanInterface
        {
            return $this;
        }

        public function setStatus(string $code, ?string $description = null): SpanInterface
        {
            return $this;
        }

        public function end(?int $endEpochNanos = null): void
        {
        }

        public function storeInContext(ContextInterface $context): ContextInterface
        {
            return new Context($this);
        }
    }

    final class RecordingSpan extends NonRecordingSpan
    {
        /** @var list<self> every span that was started */
        public static array $all = [];

        public array $attributes = [];
        public array $events = [];
        public string $status = StatusCode::STATUS_UNSET;
        public ?string $description = null;
        public ?int $endNs = null;

        public function __construct(
            public string $name,
            SpanContext $context,
            public readonly string $parentSpanId,
            public readonly int $kind,
            public readonly int $startNs,
        ) {
            parent::__construct($context);
            self::$all[] = $this;
        }

        public function getKind(): int
        {
            return $this->kind;
        }

        public function isRecording(): bool
        {
            return $this->endNs === null;
        }

        public function setAttributes(iterable $attributes): SpanInterface
        {
            foreach ($this->isRecording() ? $attributes : [] as $name => $value) {
                $this->attributes[$name] = $value;
            }

            return $this;
        }

        public function addEvent(string $name, iterable $attributes = [], ?int $timestamp = null): SpanInterface
        {
            $this->events[] = [$name, $timestamp, [...$attributes]];

            return $this;
        }

        public function recordException(\Throwable $exception, iterable $attributes = []): SpanInterface
        {
            $described = ['exception.type' => $exception::class, 'exception.message' => $exception->getMessage()];

            return $this->addEvent('exception', $described);
        }

        public function updateName(string $name): SpanInterface
        {
            $this->name = $name;

            return $this;
        }

        public function setStatus(string $code, ?string $description = null): SpanInterface
        {
            [$this->status, $this->description] = [$code, $description];

            return $this;
        }

        public function end(?int $endEpochNanos = null): void
        {
            $this->endNs ??= $endEpochNanos ?? (int) (\microtime(true) * 1e9);
        }
    }

    final class Span
    {
        public static function fromContext(ContextInterface $context): SpanInterface
        {
            return $context->span ?? new NonRecordingSpan(
                new SpanContext(\str_repeat('0', 32), \str_repeat('0', 16), false),
            );
        }
    }

    final class LocalRootSpan
    {
        public static function fromContext(ContextInterface $context): SpanInterface
        {
            $span = Span::fromContext($context);
            $isLocal = !$span->getContext()->isRemote();

            return $isLocal ? $span : Span::fromContext(Context::getRoot());
        }
    }

    interface SpanBuilderInterface
    {
        public function setParent(ContextInterface|false|null $context): self;

        public function setSpanKind(int $spanKind): self;

        public function setStartTimestamp(int $timestampNanos): self;

        public function setAttributes(iterable $attributes): self;

        public function startSpan(): SpanInterface;
    }

    final class RecordingSpanBuilder implements SpanBuilderInterface
    {
        private ?ContextInterface $parent = null;
        private int $kind = SpanKind::KIND_INTERNAL;
        private ?int $startNs = null;
        private array $attributes = [];

        public function __construct(private readonly string $name)
        {
        }

        public function setParent(ContextInterface|false|null $context): self
        {
            $this->parent = $context ?: null;

            return $this;
        }

        public function setSpanKind(int $spanKind): self
        {
            $this->kind = $spanKind;

            return $this;
        }

        public function setStartTimestamp(int $timestampNanos): self
        {
            $this->startNs = $timestampNanos;

            return $this;
        }

        public function setAttributes(iterable $attributes): self
        {
            $this->attributes = [...$attributes];

            return $this;
        }

        public function startSpan(): SpanInterface
        {
            $parent = Span::fromContext($this->parent ?? Context::getCurrent())->getContext();
            $traceId = $parent->isValid() ? $parent->getTraceId() : \bin2hex(\random_bytes(16));
            $span = new RecordingSpan(
                $this->name,
                new SpanContext($traceId, \bin2hex(\random_bytes(8)), false),
                $parent->getSpanId(),
                $this->kind,
                $this->startNs ?? (int) (\microtime(true) * 1e9),
            );
            $span->setAttributes($this->attributes);

            return $span;
        }
    }

    interface TracerProviderInterface
    {
        public function getTracer(string $name, ?string $version = null): object;
    }

    final class NoopTracerProvider implements TracerProviderInterface
    {
        public function getTracer(string $name, ?string $version = null): object
        {
            throw new \LogicException('nothing is recorded without a provider');
        }
    }

    final class RecordingTracerProvider implements TracerProviderInterface
    {
        public function getTracer(string $name, ?string $version = null): object
        {
            return new class {
                public function spanBuilder(string $spanName): SpanBuilderInterface
                {
                    return new RecordingSpanBuilder($spanName);
                }
            };
        }
    }
}

namespace OpenTelemetry\API\Metrics {
    use OpenTelemetry\Context\ContextInterface;

    interface HistogramInterface
    {
        public function record(
            float|int $amount,
            iterable $attributes = [],
            ContextInterface|false|null $context = null,
        ): void;
    }

    interface MeterInterface
    {
        public function createHistogram(
            string $name,
            ?string $unit = null,
            ?string $description = null,
            array $advisory = [],
        ): HistogramInterface;
    }

    interface MeterProviderInterface
    {
        public function getMeter(string $name, ?string $version = null): MeterInterface;
    }

    final class RecordingMeterProvider implements MeterProviderInterface, MeterInterface
    {
        /** @var list<array{string, string|null, float|int, array<string, mixed>}> name, unit, value, attributes */
        public static array $values = [];

        public function getMeter(string $name, ?string $version = null): MeterInterface
        {
            return $this;
        }

        public function createHistogram(
            string $name,
            ?string $unit = null,
            ?string $description = null,
            array $advisory = [],
        ): HistogramInterface {
            return new class ($name, $unit) implements HistogramInterface {
                public function __construct(private readonly string $name, private readonly ?string $unit)
                {
                }

                public function record(
                    float|int $amount,
                    iterable $attributes = [],
                    ContextInterface|false|null $context = null,
                ): void {
                    RecordingMeterProvider::$values[] = [$this->name, $this->unit, $amount, [...$attributes]];
                }
            };
        }
    }
}

namespace OpenTelemetry\API\Metrics\Noop {
    use OpenTelemetry\API\Metrics\MeterInterface;
    use OpenTelemetry\API\Metrics\MeterProviderInterface;

    final class NoopMeterProvider implements MeterProviderInterface
    {
        public function getMeter(string $name, ?string $version = null): MeterInterface
        {
            throw new \LogicException('nothing is recorded without a provider');
        }
    }
}

namespace OpenTelemetry\API {
    use OpenTelemetry\API\Metrics\MeterProviderInterface;
    use OpenTelemetry\API\Metrics\Noop\NoopMeterProvider;
    use OpenTelemetry\API\Trace\NoopTracerProvider;
    use OpenTelemetry\API\Trace\TracerProviderInterface;
    use OpenTelemetry\Context\Propagation\NoopTextMapPropagator;
    use OpenTelemetry\Context\Propagation\TextMapPropagatorInterface;

    final class Globals
    {
        public static ?TracerProviderInterface $tracers = null;
        public static ?MeterProviderInterface $meters = null;

        public static function tracerProvider(): TracerProviderInterface
        {
            return self::$tracers ?? new NoopTracerProvider();
        }

        public static function meterProvider(): MeterProviderInterface
        {
            return self::$meters ?? new NoopMeterProvider();
        }

        public static function propagator(): TextMapPropagatorInterface
        {
            return new NoopTextMapPropagator();
        }

        public static function reset(): void
        {
            self::$tracers = self::$meters = null;
        }
    }
}
