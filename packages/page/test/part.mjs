// Which tests are to run: SAPWOOD_PART=2/8 names the second of eight parts, so that several processes may share them.

export function partOf(tests) {
  const [, part, parts] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(process.env.SAPWOOD_PART ?? "1/1") ?? [];
  if (part === undefined) throw new Error(`SAPWOOD_PART is k/n, such as 2/8, not ${process.env.SAPWOOD_PART}`);
  return tests.filter((_, at) => Math.floor((at * Number(parts)) / tests.length) === Number(part) - 1);
}
