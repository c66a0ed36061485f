//! Values as words; see wire.py.
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::Hash;
use std::io::{BufRead, BufReader, Write};
use std::iter::Peekable;
use std::os::unix::io::FromRawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::str::Split;

pub type Words<'a> = Peekable<Split<'a, char>>;

/// A value that is read from the words of a call, and written as those of a result.
pub trait Value: Sized {
    fn read(words: &mut Words) -> Self;
    fn write(&self, out: &mut Vec<String>);

    fn words(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        out.join(" ")
    }
}

fn rest<'a>(words: &mut Words<'a>) -> &'a str {
    &words.next().expect("too few arguments")[1..]
}

macro_rules! whole_numbers {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn read(words: &mut Words) -> Self { rest(words).parse().expect("a whole number") }
            fn write(&self, out: &mut Vec<String>) { out.push(format!("i{}", self)); }
        }
    )*};
}
whole_numbers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! other_numbers {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn read(words: &mut Words) -> Self { rest(words).parse().expect("a number") }
            fn write(&self, out: &mut Vec<String>) {
                out.push(if self.is_nan() { "fnan".to_string() } else { format!("f{:e}", self) });
            }
        }
    )*};
}
other_numbers!(f32 f64);

impl Value for bool {
    fn read(words: &mut Words) -> Self {
        words.next() == Some("t")
    }
    fn write(&self, out: &mut Vec<String>) {
        out.push(if *self { "t" } else { "F" }.to_string());
    }
}

impl Value for String {
    fn read(words: &mut Words) -> Self {
        let hex = rest(words);
        let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex"));
        String::from_utf8(bytes.collect()).expect("UTF-8")
    }
    fn write(&self, out: &mut Vec<String>) {
        let mut word = String::from("s");
        for byte in self.bytes() {
            word.push_str(&format!("{:02x}", byte));
        }
        out.push(word);
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(words: &mut Words) -> Self {
        let count: usize = rest(words).parse().expect("a count");
        (0..count).map(|_| T::read(words)).collect()
    }
    fn write(&self, out: &mut Vec<String>) {
        out.push(format!("l{}", self.len()));
        self.iter().for_each(|item| item.write(out));
    }
}

impl<T: Value> Value for Option<T> {
    fn read(words: &mut Words) -> Self {
        if words.peek() == Some(&"n") {
            words.next();
            return None;
        }
        Some(T::read(words))
    }
    fn write(&self, out: &mut Vec<String>) {
        match self {
            Some(value) => value.write(out),
            None => out.push("n".to_string()),
        }
    }
}

macro_rules! maps {
    ($kind:ident, $($bound:tt)*) => {
        impl<K: Value + $($bound)*, V: Value> Value for $kind<K, V> {
            fn read(words: &mut Words) -> Self {
                let count: usize = rest(words).parse().expect("a count");
                (0..count).map(|_| { let key = K::read(words); (key, V::read(words)) }).collect()
            }
            fn write(&self, out: &mut Vec<String>) {
                out.push(format!("m{}", self.len()));
                for (key, value) in self {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    };
}
maps!(HashMap, Eq + Hash);
maps!(BTreeMap, Ord);

/// Answers each line of descriptor 3 on descriptor 4.
pub fn serve(answer: impl Fn(&mut Words) -> String) {
    let (calls, mut results) = unsafe { (File::from_raw_fd(3), File::from_raw_fd(4)) };
    for line in BufReader::new(calls).lines().map_while(Result::ok) {
        let text = line.trim_matches('"').to_string();
        let result = catch_unwind(AssertUnwindSafe(|| answer(&mut text.split(' ').peekable())));
        let reply = result.map_or("!".to_string(), |words| format!("={}", words));
        if writeln!(results, "\"{}\"", reply).is_err() {
            return;
        }
    }
}
