"""The forgeries of forged_functions.py in the languages that run on a machine of their own."""

from __future__ import annotations

import json

from forged_functions import ARGUMENTS, SEARCH

JAVA = {
    "leaves early": """
        class Solution {
            static { Runtime.getRuntime().halt(0); }
            static long square(long x) { return 0; }
        }""",
    "replies unasked": r"""
        import java.io.*;
        class Solution {
            static {
                for (int i = 1; i < 99; i++) {
                    try (FileOutputStream out = new FileOutputStream("/proc/self/fd/" + i)) {
                        out.write("\"=i0\"\n".getBytes());
                    } catch (IOException error) { }
                }
                PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out));
                out.print("\"=i0\"\n\"=t\"\n{\"success\": 1}\n");
                out.flush();
            }
            static long square(long x) { System.out.println("\"=i0\""); return 0; }
        }""",
    "a thread replies": r"""
        import java.io.*;
        class Solution {
            static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out));
            static {
                Thread thread = new Thread(() -> { while (true) { OUT.print("\"=i0\"\n"); OUT.flush(); } });
                thread.setDaemon(true);
                thread.start();
                Runtime.getRuntime().addShutdownHook(new Thread(() -> { OUT.print("\"=i0\"\n"); OUT.flush(); }));
            }
            static long square(long x) throws Exception { if (x < 0) System.exit(0); Thread.sleep(99999); return 0; }
        }""",
    "takes over the driver": r"""
        class AgentgymDriver {
            public static void main(String[] names) { while (true) System.out.print("\"=i0\"\n"); }
        }
        class Solution { static long square(long x) { return 0; } }""",
    "tricks of its calls": f"""
        import java.util.*;
        class Solution {{
            static class Yes extends ArrayList<Long> {{
                public boolean equals(Object other) {{ return true; }}
                public int hashCode() {{ return 0; }}
            }}
            static Object square(long x) throws Exception {{
                if (x == {ARGUMENTS[0]}) return new Yes();
                if (x == {ARGUMENTS[1]}) {{
                    Process process = new ProcessBuilder("sh", "-c", "{SEARCH}").start();
                    return Long.valueOf(new Scanner(process.getInputStream()).next());
                }}
                throw new Error("\\"=i0\\"") {{
                    public Throwable getCause() {{ throw this; }}
                    public String toString() {{ System.exit(0); return ""; }}
                }};
            }}
        }}""",
    "harm": f"""
        import java.io.*;
        class Solution {{
            static long square(long x) throws Exception {{
                if (x == {ARGUMENTS[0]}) {{ new ProcessBuilder("sh", "-c", "kill -9 1").start().waitFor(); return 0; }}
                if (x < 0) {{
                    new FileInputStream(FileDescriptor.in).close();
                    new FileOutputStream(FileDescriptor.out).close();
                    new RandomAccessFile("/tmp/replies", "rw").writeBytes("\\"=i0\\"\\n\\"=i0\\"\\n");
                    new RandomAccessFile("/tmp/replies", "rw");
                    return 0;
                }}
                return square(x + 1) + square(x - 1);
            }}
        }}""",
    "reflection": r"""
        import java.lang.reflect.*;
        class Solution {
            static long square(long x) throws Exception {
                Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
                unsafe.setAccessible(true);
                for (Field field : Class.forName("AgentgymDriver").getDeclaredFields()) field.setAccessible(true);
                Field value = Class.forName("java.lang.Long").getDeclaredField("value");
                Class<?> kind = unsafe.get(null).getClass();
                Object offset = kind.getMethod("objectFieldOffset", Field.class).invoke(unsafe.get(null), value);
                for (long n = -128; n < 128; n++) {
                    kind.getMethod("putLong", Object.class, long.class, long.class)
                        .invoke(unsafe.get(null), Long.valueOf(n), offset, 0L);
                }
                return 0;
            }
        }""",
}

JAVASCRIPT = {
    "leaves early": "process.exit(0);\nfunction square(x) { return x * x; }",
    "replies unasked": r"""
        for (let i = 1; i < 99; i++) try { require("fs").writeSync(i, '"=i0"\n"=t"\n{"success": 1}\n'); } catch {}
        function square(x) { console.log('"=i0"'); return 0; }""",
    "a thread replies": r"""
        const { Worker } = require("worker_threads");
        new Worker("for (;;) require('fs').writeSync(4, '\"=i0\"\\n')", { eval: true });
        process.on("exit", () => require("fs").writeSync(4, '"=i0"\n'));
        function square(x) { if (x < 0) process.exit(0); return new Promise(() => {}); }""",
    "takes over the driver": """
        Array.prototype.join = () => 'i0'; JSON.parse = () => 'i4'; Number.isSafeInteger = () => false;
        const { writeSync } = require('fs');
        require('fs').writeSync = (file, text) => writeSync(file, text.replace('!', '=i0'));
        function square(x) { return x; }""",
    "tricks of its calls": f"""
        function square(x) {{
            if (x === {ARGUMENTS[0]}) return {{ valueOf: () => x * x, toJSON: () => x * x }};
            if (x < 0) return Number(require("child_process").execFileSync("sh", ["-c", {json.dumps(SEARCH)}]));
            throw {{ get stack() {{ process.exit(0); }} }};
        }}""",
    "harm": f"""
        const fs = require("fs");
        function square(x) {{
            if (x === {ARGUMENTS[0]}) try {{ process.kill(process.ppid, 9); process.kill(1, 9); }} catch {{ return 0; }}
            fs.writeFileSync("/tmp/replies", '"=i0"\\n"=i0"\\n');
            if (x < 0) {{
                [3, 4].forEach(fs.closeSync);
                return fs.openSync("/tmp/replies") + fs.openSync("/tmp/replies", "a");
            }}
            return square(x + 1) + square(x - 1);
        }}""",
    "a proxy": "function square(x) { return new Proxy([], { get: () => () => true }); }",
    "a timer": r"""
        setInterval(() => require('fs').writeSync(4, '"=i0"\n'));
        function square(x) { return new Promise(() => {}); }""",
    "another shape": "function square(x) { return [x * x]; }",
    "text": "function square(x) { return String(x * x); }",
}
