<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

/** The tables of cases that the packages of all languages share. */
final class Vectors
{
    /** @return array<string, mixed> */
    public static function table(string $name): array
    {
        $path = \dirname(__DIR__, 4) . "/tests/vectors/{$name}.json";

        return \json_decode((string) \file_get_contents($path), true, 16, \JSON_THROW_ON_ERROR);
    }

    /** @return \Generator<string, array{array<string, mixed>}> one argument list per case, by its name */
    public static function cases(string $name): \Generator
    {
        foreach (self::table($name)['cases'] as $case) {
            yield $case['name'] => [$case];
        }
    }

    /**
     * Return the values of a header, joined as a server joins them.
     *
     * @param list<array{string, string}> $headers
     */
    public static function joined(array $headers, string $name): string
    {
        $values = \array_filter($headers, static fn (array $header): bool => \strcasecmp($header[0], $name) === 0);

        return \implode(',', \array_column($values, 1));
    }
}
