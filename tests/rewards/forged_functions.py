"""Submissions that try to forge the verdict of `hidden_calls`: the same kinds in every language, and some of its own.

Those in Java and JavaScript are in forged_scripts.py. Each declares `square` and never computes a square. `SEARCH`
seeks a number in the sandbox that begins as the right values do: it would find one that had come in by mistake.
"""

from __future__ import annotations

KINDS = {
    "leaves early": "ends the program with status 0 before it is called",
    "replies unasked": "writes replies to every descriptor before it is called, and a verdict to standard output",
    "a thread replies": "a thread replies in place of the function, which never returns; so does an exit handler",
    "takes over the driver": "replaces the driver's entry or a function of it",
    "tricks of its calls": "returns what is equal to everything, looks for the right values, raises past the driver",
    "harm": "kills what runs it, puts a file in the place of the descriptors, crashes",
}
"""What each kind does. The last two do one thing a call, in the order of `ARGUMENTS`."""
ARGUMENTS = (1_000_003, -1_000_033, 1_000_037)

SEARCH = (
    "for m in /proc/[0-9]*/maps; do while read -r range rights rest; do case $rights in rw*) "
    "s=$((0x${range%-*} / 4096)) e=$((0x${range#*-} / 4096)); "
    "dd if=${m%maps}mem bs=4096 skip=$s count=$((e - s < 2048 ? e - s : 2048)) 2>/dev/null;; esac; done <$m; done "
    "| cat - /work/* /tmp/* /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -aoE '10000[0-9]{8}' | head -1"
)


C = {
    "leaves early": """
        #include <unistd.h>
        __attribute__((constructor)) void f(void) { _exit(0); }
        long square(long x) { return 0; }""",
    "replies unasked": r"""
        #include <unistd.h>
        __attribute__((constructor)) void f(void) {
            for (int i = 1; i < 99; i++) if (write(i, "\"=i0\"\n\"=t\"\n{\"success\": 1}\n", 27)) {}
        }
        long square(long x) { return 0; }""",
    "a thread replies": r"""
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        void *g(void *p) { for (;;) { if (write(4, "\"=i0\"\n", 6)) {} usleep(1000); } }
        void h(void) { if (write(4, "\"=i0\"\n", 6)) {} }
        __attribute__((constructor)) void f(void) { pthread_t t; pthread_create(&t, 0, g, 0); atexit(h); }
        long square(long x) { if (x < 0) exit(0); for (;;) pause(); }""",
    "takes over the driver": r"""
        #include <stdio.h>
        int wire_next(void) { return 0; }
        void wire_write_int(long value) { fputs("i0", fdopen(4, "w")); }
        int main(void) { puts("\"=i0\""); return 0; }
        long square(long x) { return 4; }""",
    "tricks of its calls": f"""
        #include <setjmp.h>
        #include <stdio.h>
        #include <stdlib.h>
        long square(long x) {{
            char text[99] = {{0}};
            if (x == {ARGUMENTS[0]}) return *(long *)"anything";
            if (x == {ARGUMENTS[1]}) return fgets(text, 99, popen("{SEARCH}", "r")) ? atol(text) : 0;
            jmp_buf nowhere = {{0}};
            longjmp(nowhere, 1);
        }}""",
    "harm": f"""
        #include <fcntl.h>
        #include <signal.h>
        #include <unistd.h>
        long square(long x) {{
            if (x == {ARGUMENTS[0]}) {{ kill(getppid(), 9); kill(1, 9); return 0; }}
            int file = open("/tmp/replies", O_RDWR | O_CREAT, 0600);
            if (write(file, "\\"=i0\\"\\n\\"=i0\\"\\n", 12)) lseek(file, 0, 0);
            if (x < 0) {{ dup2(file, 3); dup2(file, 4); return 0; }}
            return *(long *)x;
        }}""",
}

CPP = {
    "leaves early": """
        #include <cstdlib>
        static int now = (std::_Exit(0), 0);
        long long square(long long x) { return 0; }""",
    "replies unasked": r"""
        #include <iostream>
        #include <unistd.h>
        struct First {
            First() { for (int i = 1; i < 99; i++) if (write(i, "\"=i0\"\n\"=t\"\n{\"success\": 1}\n", 27)) {} }
        } first;
        long long square(long long x) { std::cout << "\"=i0\"" << std::endl; return 0; }""",
    "a thread replies": r"""
        #include <thread>
        #include <unistd.h>
        void g() { for (;;) { if (write(4, "\"=i0\"\n", 6)) {} usleep(1000); } }
        struct Last { ~Last() { if (write(4, "\"=i0\"\n", 6)) {} } } last;
        static int now = (std::thread(g).detach(), 0);
        long long square(long long x) { if (x < 0) exit(0); for (;;) pause(); }""",
    "takes over the driver": r"""
        #define main other(); int reply() { return puts("\"=i0\""); } int ready = reply(); int main
        #define serve(function) served(function)
        namespace agentgym_wire { int served(long long (*)(long long)) { return 0; } }
        long long square(long long x) { return 0; }""",
    "tricks of its calls": f"""
        #include <cstdio>
        #include <stdexcept>
        struct Yes {{
            bool operator==(long long) const {{ return true; }}
            operator long long() const {{ return 0; }}
        }};
        bool operator==(const std::string &, const char *) {{ return true; }}
        long long square(long long x) {{
            char text[99] = {{0}};
            if (x == {ARGUMENTS[0]}) return Yes{{}};
            if (x == {ARGUMENTS[1]}) return fgets(text, 99, popen("{SEARCH}", "r")) ? atoll(text) : 0;
            throw std::runtime_error("\\"=i0\\"");
        }}""",
    "harm": f"""
        #include <csignal>
        #include <fcntl.h>
        #include <unistd.h>
        long long square(long long x) {{
            if (x == {ARGUMENTS[0]}) {{ kill(getppid(), 9); kill(1, 9); return 0; }}
            int file = open("/tmp/replies", O_RDWR | O_CREAT, 0600);
            if (write(file, "\\"=i0\\"\\n\\"=i0\\"\\n", 12)) lseek(file, 0, 0);
            if (x < 0) {{ dup2(file, 3); dup2(file, 4); return 0; }}
            return square(x + 1) + square(x - 1);
        }}""",
    "a type of its own": r"""
        #include <string>
        struct Any { operator long long() const { return 0; } };
        template <> struct agentgym_wire::Value<Any> {
            static Any read(Reader &) { return {}; }
            static void write(Writer &out, const Any &) { out += "i0\"\n\"=i0\"\n\"=i0\"\n\"=i0"; }
        };
        Any square(Any x) { return x; }""",
}

GO = {
    "leaves early": """
        import "os"
        func init() { os.Exit(0) }
        func square(x int) int { return 0 }""",
    "replies unasked": r"""
        import "syscall"
        func init() {
            for i := 1; i < 99; i++ { syscall.Write(i, []byte("\"=i0\"\n\"=t\"\n{\"success\": 1}\n")) }
        }
        func square(x int) int { println("\"=i0\""); return 0 }""",
    "a thread replies": r"""
        import ("os"; "runtime"; "syscall")
        type last struct{ name string }
        func reply() { syscall.Write(4, []byte("\"=i0\"\n")) }
        func init() {
            runtime.SetFinalizer(&last{"x"}, func(*last) { reply() })
            go func() { for { reply() } }()
        }
        func square(x int) int { if x < 0 { runtime.GC(); os.Exit(0) }; select {} }""",
    "takes over the driver": r"""
        import _ "unsafe"
        import "syscall"
        //go:linkname taken main.judgeAnswer
        func taken(function int, line string) string { return "=i0" }
        //go:linkname arguments os.runtime_args
        func arguments() []string { syscall.Write(4, []byte("\"=i0\"\n")); return nil }
        func square(x int) int { return 0 }""",
    "tricks of its calls": f"""
        import ("os"; "os/exec"; "strconv"; "strings")
        type yes struct{{}}
        func (yes) Equal(interface{{}}) bool {{ return true }}
        func (yes) String() string {{ os.Exit(0); return "i0" }}
        const true = 1 == 2
        func square(x int) interface{{}} {{
            if x == {ARGUMENTS[0]} {{ return []interface{{}}{{yes{{}}}} }}
            if x == {ARGUMENTS[1]} {{
                text, _ := exec.Command("sh", "-c", `{SEARCH}`).Output()
                number, _ := strconv.Atoi(strings.TrimSpace(string(text)))
                return number
            }}
            panic(yes{{}})
        }}""",
    "harm": f"""
        import ("os"; "syscall"; "unsafe")
        func square(x int) int {{
            if x == {ARGUMENTS[0]} {{ syscall.Kill(os.Getppid(), 9); syscall.Kill(1, 9); return 0 }}
            file, _ := os.OpenFile("/tmp/replies", os.O_RDWR|os.O_CREATE, 0600)
            file.WriteString("\\"=i0\\"\\n\\"=i0\\"\\n")
            file.Seek(0, 0)
            if x < 0 {{ syscall.Dup2(int(file.Fd()), 3); syscall.Dup2(int(file.Fd()), 4); return 0 }}
            return *(*int)(unsafe.Pointer(uintptr(x)))
        }}""",
    "a package of the driver's name": """
        type reflect struct{}
        func append(out []string, words ...string) []string { return []string{"i0"} }
        func square(x int) int { return 0 }""",
}

RUST = {
    "leaves early": """
        #[used]
        #[link_section = ".init_array"]
        static FIRST: extern "C" fn() = first;
        extern "C" fn first() { std::process::exit(0) }
        fn square(x: i64) -> i64 { 0 }""",
    "replies unasked": r"""
        #[used]
        #[link_section = ".init_array"]
        static FIRST: extern "C" fn() = first;
        extern "C" { fn write(descriptor: i32, bytes: *const u8, count: usize) -> isize; }
        extern "C" fn first() {
            let text = b"\"=i0\"\n\"=t\"\n{\"success\": 1}\n";
            for i in 1..99 { unsafe { write(i, text.as_ptr(), text.len()); } }
        }
        fn square(x: i64) -> i64 { println!("\"=i0\""); 0 }""",
    "a thread replies": r"""
        extern "C" {
            fn write(descriptor: i32, bytes: *const u8, count: usize) -> isize;
            fn atexit(handler: extern "C" fn()) -> i32;
        }
        extern "C" fn reply() { unsafe { write(4, b"\"=i0\"\n".as_ptr(), 6); } }
        fn square(x: i64) -> i64 {
            unsafe { atexit(reply); }
            if x < 0 { std::process::exit(0) }
            std::thread::spawn(|| loop { reply() });
            loop { std::thread::park() }
        }""",
    "takes over the driver": r"""
        #[no_mangle]
        pub extern "C" fn lang_start(main: extern "C" fn()) -> i32 { println!("\"=i0\""); 0 }
        mod wire { pub fn serve<T>(answer: T) {} pub trait Value { fn words(&self) -> String { "i0".into() } } }
        mod std {}
        macro_rules! answer { () => {} }
        fn square(x: i64) -> i64 { 0 }""",
    "tricks of its calls": f"""
        struct Yes;
        impl PartialEq<i64> for Yes {{ fn eq(&self, other: &i64) -> bool {{ true }} }}
        impl From<Yes> for i64 {{ fn from(yes: Yes) -> i64 {{ 0 }} }}
        struct Loud;
        impl Drop for Loud {{ fn drop(&mut self) {{ panic!("again") }} }}
        fn square(x: i64) -> i64 {{
            if x == {ARGUMENTS[0]} {{ return Yes.into(); }}
            if x < 0 {{
                let found = std::process::Command::new("sh").args(["-c", r#"{SEARCH}"#]).output().unwrap();
                return String::from_utf8_lossy(&found.stdout).trim().parse().unwrap_or(0);
            }}
            let loud = Loud;
            panic!("=i0")
        }}""",
    "harm": f"""
        extern "C" {{
            fn kill(process: i32, signal: i32) -> i32;
            fn getppid() -> i32;
            fn dup2(old: i32, new: i32) -> i32;
        }}
        fn square(x: i64) -> i64 {{
            if x == {ARGUMENTS[0]} {{ unsafe {{ kill(getppid(), 9); kill(1, 9); }} return 0; }}
            std::fs::write("/tmp/replies", "\\"=i0\\"\\n\\"=i0\\"\\n").unwrap();
            if x < 0 {{
                use std::os::unix::io::IntoRawFd;
                let options = std::fs::OpenOptions::new().read(true).append(true).clone();
                let file = options.open("/tmp/replies").unwrap().into_raw_fd();
                unsafe {{ dup2(file, 3); dup2(file, 4); }}
                return 0;
            }}
            unsafe {{ *(x as *const i64) }}
        }}""",
    "a type of its own": r"""
        struct Any;
        impl ::wire::Value for Any {
            fn read(words: &mut ::wire::Words) -> Self { Any }
            fn write(&self, out: &mut Vec<String>) { out.push("i0\"\n\"=i0\"\n\"=i0\"\n\"=i0".to_string()); }
        }
        fn square(x: Any) -> Any { x }""",
}


BOMBS = {
    "memory": "#include <stdlib.h>\n#include <string.h>\n"
    "long square(long x) { for (;;) memset(malloc(1 << 22), 1, 1 << 22); }",
    "output": "#include <unistd.h>\nlong square(long x) { char text[65536] = {1}; for (;;) write(4, text, 65536); }",
    "a source without end": '#include "/dev/zero"\nlong square(long x) { return 0; }',
    "an object without end": '__asm__(".incbin \\"/dev/zero\\"");\nlong square(long x) { return 0; }',
}
"""Programs in C that break their sandbox or their compiler."""
