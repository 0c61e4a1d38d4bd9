'use strict';

// The package as npm packs it: its files, both entries, and its types.

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { promisify } = require('node:util');

const { INSTALLED, PACKAGE, requireInstalled, skip, sojourn } = require('./support');

const run = promisify(execFile);
const noNpm = spawnSync('npm', ['--version']).status === 0 ? false : 'npm is not installed';

/** A folder that is removed after the test. */
function temporary(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sojourn-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function npm(folder, ...args) {
  const env = { ...process.env, npm_config_cache: path.join(folder, '.npm'), npm_config_update_notifier: 'false' };
  return run('npm', [...args, '--offline', '--no-audit', '--no-fund', '--no-package-lock'], { cwd: folder, env });
}

test('the packed package, installed', { skip: noNpm }, async (t) => {
  const folder = temporary(t);
  const { stdout } = await npm(folder, 'pack', PACKAGE, '--json');
  const [packed] = JSON.parse(stdout);
  assert.deepEqual(packed.files.map((file) => file.path).sort(), [
    'LICENSE',
    'README.md',
    'package.json',
    ...[
      ...[
        'adapters.js',
        'clock.js',
        'event_loop.js',
        'exchange.js',
        'index.d.mts',
        'index.d.ts',
        'index.js',
        'index.mjs',
        'optional.js',
        'prometheus.js',
        'response.js',
      ],
      ...['route.js', 'semantics.js', 'settings.js', 'stamp.js', 'stats.js', 'telemetry.js', 'warning.js', 'worker.js'],
    ].map((file) => `src/${file}`),
  ]);
  fs.writeFileSync(path.join(folder, 'package.json'), '{"private": true}');
  await npm(folder, 'install', `./${packed.filename}`);
  const names = Object.keys(sojourn).sort();
  const script = (load) =>
    `${load}; console.log(JSON.stringify(Object.keys(sojourn).sort()), sojourn.default?.stats().kind)`;
  const required = await run(process.execPath, ['-e', script("const sojourn = require('sojourn-middleware')")], {
    cwd: folder,
  });
  assert.equal(required.stdout, `${JSON.stringify(names)} undefined\n`);
  const imported = await run(
    process.execPath,
    ['--input-type=module', '-e', script("import * as sojourn from 'sojourn-middleware'")],
    { cwd: folder },
  );
  assert.equal(imported.stdout, `${JSON.stringify([...names, 'default'].sort())} node\n`);
});

test('the types are those of the frameworks', { skip }, async (t) => {
  const ts = requireInstalled('typescript');
  const folder = temporary(t);
  const modules = path.join(folder, 'node_modules');
  fs.mkdirSync(modules);
  for (const name of fs.readdirSync(path.join(INSTALLED, 'node_modules'))) {
    fs.symlinkSync(path.join(INSTALLED, 'node_modules', name), path.join(modules, name));
  }
  const own = path.join(modules, 'sojourn-middleware');
  fs.cpSync(PACKAGE, own, { recursive: true });
  // Once as CommonJS and once as an ES module: each has declarations of its own.
  const roots = ['types.cts', 'types.mts'].map((name) => path.join(folder, name));
  for (const root of roots) fs.copyFileSync(path.join(__dirname, 'types.ts'), root);
  const program = ts.createProgram(roots, {
    strict: true,
    noEmit: true,
    esModuleInterop: true,
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    target: ts.ScriptTarget.ES2022,
    typeRoots: [path.join(modules, '@types')],
    types: ['node'],
  });
  // The declarations of the frameworks themselves are not checked: that takes most of the time.
  const checked = [...roots, ...['index.d.ts', 'index.d.mts'].map((name) => path.join(own, 'src', name))];
  const files = checked.map((file) => program.getSourceFile(file));
  assert.ok(files.every(Boolean), 'both declarations are used');
  const diagnostics = [
    ...program.getOptionsDiagnostics(),
    ...files.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  ];
  assert.equal(
    ts.formatDiagnostics(diagnostics, { ...ts.sys, getCanonicalFileName: (name) => name, getNewLine: () => '\n' }),
    '',
  );
});

test('the declarations name what the package exports', () => {
  const declared = fs.readFileSync(path.join(PACKAGE, 'src/index.d.ts'), 'utf8').matchAll(/^export function (\w+)/gm);
  assert.deepEqual([...declared].map((match) => match[1]).sort(), Object.keys(sojourn).sort());
});
