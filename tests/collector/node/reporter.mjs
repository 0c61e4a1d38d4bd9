// A reporter of `node --test`: a line of JSON for each test, {"name": [of its parents, its own], "ok", "skip", "error"}.

function textOf(error) {
  const cause = error?.cause ?? error;
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}

export default async function* report(source) {
  const names = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      names[data.nesting] = data.name;
    } else if (type === 'test:pass' || type === 'test:fail') {
      const name = [...names.slice(0, data.nesting), data.name];
      const ok = type === 'test:pass';
      const error = ok ? null : textOf(data.details?.error);
      yield `${JSON.stringify({ name, ok, skip: data.skip ?? null, error })}\n`;
    }
  }
}
