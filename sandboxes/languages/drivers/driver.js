// Values as words; see wire.py. The function is found by its name in the submission, and may return a promise.
"use strict";
const fs = require("fs");

const buffered = { bytes: Buffer.alloc(0) };

function nextLine() {
    for (;;) {
        const end = buffered.bytes.indexOf(10);
        if (end >= 0) {
            const line = buffered.bytes.toString("utf8", 0, end);
            buffered.bytes = buffered.bytes.subarray(end + 1);
            return line;
        }
        const piece = Buffer.alloc(65536);
        const count = fs.readSync(3, piece);
        if (count === 0) return null;
        buffered.bytes = Buffer.concat([buffered.bytes, piece.subarray(0, count)]);
    }
}

function number(text) {
    return { inf: Infinity, "-inf": -Infinity, nan: NaN }[text] ?? Number(text);
}

function readAll(line) {
    const values = [];
    const position = { next: 0 };
    while (position.next < line.length) values.push(read(line, position));
    return values;
}

function read(line, position) {
    const word = line[position.next++];
    const rest = word.slice(1);
    switch (word[0]) {
        case "i": return Number(rest);
        case "f": return number(rest);
        case "t": return true;
        case "F": return false;
        case "s": return Buffer.from(rest, "hex").toString("utf8");
        case "l": return Array.from({ length: Number(rest) }, () => read(line, position));
        case "m": return new Map(Array.from({ length: Number(rest) }, () => [read(line, position), read(line, position)]));
    }
    return null;
}

function words(value) {
    if (value === null || value === undefined) return ["n"];
    if (typeof value === "boolean") return [value ? "t" : "F"];
    if (typeof value === "bigint") return ["i" + value];
    if (typeof value === "number") {
        if (Number.isSafeInteger(value)) return ["i" + (value === 0 ? 0 : value)];
        return ["f" + (Number.isNaN(value) ? "nan" : Number.isFinite(value) ? value : value > 0 ? "inf" : "-inf")];
    }
    if (typeof value === "string") return ["s" + Buffer.from(value, "utf8").toString("hex")];
    if (Array.isArray(value)) return ["l" + value.length].concat(...Array.from(value, words));
    if (typeof value === "object") {
        const entries = value instanceof Map ? [...value] : Object.entries(value);
        return ["m" + entries.length].concat(...entries.flat().map(words));
    }
    return ["?"];
}

async function serve(name) {
    const code = fs.readFileSync("solution.js", "utf8");
    const submission = new Function("require", "module", "exports", `${code}\n;return ${name};`);
    const box = { exports: {} };
    const solve = submission(require, box, box.exports);
    for (let line = nextLine(); line !== null; line = nextLine()) {
        let reply = "!";
        try {
            const given = readAll(JSON.parse(line).split(" ").filter(Boolean));
            reply = "=" + words(await solve(...given)).join(" ");
        } catch (error) {
            console.error(error);
        }
        fs.writeSync(4, `"${reply}"\n`);
    }
    process.exit(0);
}

serve(process.argv[2]).catch((error) => {
    console.error(error);
    process.exit(1);
});
