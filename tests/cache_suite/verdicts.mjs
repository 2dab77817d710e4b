// Runs the suite's tests against a cache at ARGV[2] and prints, as JSON, the kind and verdict of each.
import fetch from 'node-fetch'

const suite = new URL('./node_modules/http-cache-tests/', import.meta.url)
const load = async path => import(new URL(path, suite))
const { runTests, getResults } = await load('client/runner.mjs')
const suites = (await load('tests/index.mjs')).default

await runTests(suites, fetch, false, process.argv[2])
const results = getResults()
const verdicts = {}
for (const test of suites.flatMap(each => each.tests)) {
  // What is for browsers alone has no result.
  if (!(test.id in results)) continue
  const result = results[test.id]
  const verdict = result === true ? 'pass' : Array.isArray(result) ? result.join(': ') : 'fail'
  const missing = (test.depends_on ?? []).filter(id => results[id] !== true)
  verdicts[test.id] = { kind: test.kind ?? 'required', verdict, missing }
}
process.stdout.write(JSON.stringify(verdicts))
