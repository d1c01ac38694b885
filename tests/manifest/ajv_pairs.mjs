// Says of each pair of a schema and a value whether the value is valid, as ajv sees it: a second opinion on JSON Schema 2020-12.
//
//   node ajv_pairs.mjs FOLDER_WITH_AJV < pairs.json > verdicts.json
//
// pairs.json is [{"schema": …, "value": …}, …], verdicts.json is [true, false, …].
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const require = createRequire(resolve(process.argv[2], "package.json"));
const { default: Ajv2020 } = require("ajv/dist/2020");

// Formats say something to people only, and keywords that nobody knows mean nothing.
const options = { strict: false, validateFormats: false, logger: false };
const pairs = JSON.parse(readFileSync(0, "utf8"));
// One for all: each new one compiles the meta-schema again, which takes longer than all pairs.
const ajv = new Ajv2020(options);
const verdicts = pairs.map(({ schema, value }) => ajv.compile(schema)(value));
process.stdout.write(JSON.stringify(verdicts));
