<?php

/*
 * The app behind auto_prepend.php: one script for every path. Paths of spans load the part of OpenTelemetry's API that
 * the package calls, from the package's tests, and write their spans to the file of the variable SPANS, as an exporter
 * does: in a shutdown function at the end of the queue.
 */

use Sojourn\Middleware\CurrentRequest;

$path = explode('?', $_SERVER['REQUEST_URI'])[0];

if (str_starts_with($path, '/span')) {
    require getenv('OPENTELEMETRY');
    OpenTelemetry\API\Globals::$tracers = new OpenTelemetry\API\Trace\RecordingTracerProvider();
    OpenTelemetry\API\Globals::$meters = new OpenTelemetry\API\Metrics\RecordingMeterProvider();
    register_shutdown_function(static function (): void {
        register_shutdown_function(static function (): void {
            $values = OpenTelemetry\API\Metrics\RecordingMeterProvider::$values;
            foreach (OpenTelemetry\API\Trace\RecordingSpan::$all as $span) {
                $fields = [...get_object_vars($span), 'ids' => $span->getContext(), 'delays' => $values];
                file_put_contents(getenv('SPANS'), json_encode($fields) . "\n", FILE_APPEND);
            }
        });
    });
}

switch ($path) {
    case '/sleep':
        usleep(150_000);
        echo 'slept';
        break;
    case '/users':
        CurrentRequest::route('/users/{id}');
        echo 'user';
        break;
    case '/own':
        header('X-Route: /own/route');
        header('X-Queueing-Delay: 9');
        header('X-Worker: mine');
        header('Server-Timing: db;dur=1');
        echo 'own';
        break;
    case '/flush':
        echo 'one ';
        if (ob_get_level() > 0) {
            ob_end_flush();
        }
        flush();
        usleep(150_000);
        echo 'two';
        break;
    case '/finish':
        echo 'finished';
        fastcgi_finish_request();
        usleep(150_000);
        break;
    case '/error':
        throw new DomainException('of the app');
    case '/memory':
        ini_set('memory_limit', '4M');
        str_repeat('x', 1 << 26);
        break;
    case '/page':
        // As frameworks do: an error page from a shutdown function.
        register_shutdown_function(static function (): void {
            header('HTTP/1.1 503 Service Unavailable');
            echo 'sorry';
        });
        nothing_of_the_kind();
        break;
    case '/exit':
        echo 'exited';
        exit(3);
    case '/empty':
        http_response_code(204);
        break;
    case '/callback':
        header_register_callback(static fn () => header('X-App: called'));
        echo 'called';
        break;
    case '/ignored':
        CurrentRequest::ignore();
        echo 'ignored';
        break;
    case '/globals':
        echo json_encode(array_keys($GLOBALS));
        break;
    case '/span':
        header('X-Route: /span/{id}');
        usleep(20_000);
        echo 'span';
        break;
    case '/span/error':
        throw new DomainException('of the app');
    case '/span/own':
        $tracer = OpenTelemetry\API\Globals::tracerProvider()->getTracer('app');
        $span = $tracer->spanBuilder('of the app')->setSpanKind(OpenTelemetry\API\Trace\SpanKind::KIND_SERVER)->startSpan();
        $scope = $span->storeInContext(OpenTelemetry\Context\Context::getRoot())->activate();
        CurrentRequest::route('/span/own');
        $scope->detach();
        $span->end();
        echo 'span';
        break;
    case '/span/ignored':
        CurrentRequest::ignore();
        break;
    default:
        echo 'hello';
}
