// node main.mjs NAME URL… reads from each URL in turn and prints the digests as JSON.

import { readers } from "./readers.mjs";

const [name, ...urls] = process.argv.slice(2);
const digests = [];
for (const url of urls) digests.push(await readers[name](url));
console.log(JSON.stringify({ digests }));
