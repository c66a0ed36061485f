// Values as words; see wire.py. A function of any plain types is served.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace agentgym_wire {

struct Reader {
    const char *position;

    std::string word() {
        size_t length = strcspn(position, " \"");
        std::string text(position, length);
        position += length + (position[length] == ' ');
        return text;
    }
};

using Writer = std::string;

inline void put(Writer &out, const std::string &word) {
    if (out.back() != '=') out += ' ';
    out += word;
}

template <class T, class = void>
struct Value;

template <>
struct Value<bool> {
    static bool read(Reader &in) { return in.word() == "t"; }
    static void write(Writer &out, bool value) { put(out, value ? "t" : "F"); }
};

template <class T>
struct Value<T, std::enable_if_t<std::is_integral_v<T>>> {
    static T read(Reader &in) { return static_cast<T>(std::strtoll(in.word().c_str() + 1, nullptr, 10)); }
    static void write(Writer &out, T value) { put(out, "i" + std::to_string(value)); }
};

template <class T>
struct Value<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static T read(Reader &in) { return static_cast<T>(std::strtod(in.word().c_str() + 1, nullptr)); }
    static void write(Writer &out, T value) {
        char text[40];
        std::snprintf(text, sizeof text, "f%.17g", static_cast<double>(value));
        put(out, text);
    }
};

template <>
struct Value<std::string> {
    static std::string read(Reader &in) {
        std::string word = in.word(), text;
        for (size_t i = 1; i + 1 < word.size(); i += 2) text += static_cast<char>(std::stoi(word.substr(i, 2), nullptr, 16));
        return text;
    }
    static void write(Writer &out, const std::string &value) {
        std::string word = "s";
        for (unsigned char byte : value) {
            word += "0123456789abcdef"[byte >> 4];
            word += "0123456789abcdef"[byte & 15];
        }
        put(out, word);
    }
};

template <class T>
struct Value<std::vector<T>> {
    static std::vector<T> read(Reader &in) {
        std::vector<T> items;
        for (long long n = Value<long long>::read(in); n > 0; n--) items.push_back(Value<T>::read(in));
        return items;
    }
    static void write(Writer &out, const std::vector<T> &value) {
        put(out, "l" + std::to_string(value.size()));
        for (const T item : value) Value<T>::write(out, item);
    }
};

template <class Map>
struct MapValue {
    using K = typename Map::key_type;
    using V = typename Map::mapped_type;
    static Map read(Reader &in) {
        Map entries;
        for (long long n = Value<long long>::read(in); n > 0; n--) {
            K key = Value<K>::read(in);
            entries[key] = Value<V>::read(in);
        }
        return entries;
    }
    static void write(Writer &out, const Map &value) {
        put(out, "m" + std::to_string(value.size()));
        for (const auto &[key, item] : value) {
            Value<K>::write(out, key);
            Value<V>::write(out, item);
        }
    }
};

template <class K, class V>
struct Value<std::map<K, V>> : MapValue<std::map<K, V>> {};

template <class K, class V>
struct Value<std::unordered_map<K, V>> : MapValue<std::unordered_map<K, V>> {};

template <class T>
struct Value<std::optional<T>> {
    static std::optional<T> read(Reader &in) {
        if (*in.position != 'n') return Value<T>::read(in);
        in.word();
        return std::nullopt;
    }
    static void write(Writer &out, const std::optional<T> &value) {
        if (value) Value<T>::write(out, *value);
        else put(out, "n");
    }
};

template <class Result, class... Arguments>
int serve(Result (*function)(Arguments...)) {
    FILE *calls = fdopen(3, "r"), *results = fdopen(4, "w");
    char *line = nullptr;
    size_t size = 0;
    while (calls && results && getline(&line, &size, calls) > 0) {
        Reader in{line + 1};
        Writer out = "\"=";
        try {
            std::tuple<std::decay_t<Arguments>...> arguments{Value<std::decay_t<Arguments>>::read(in)...};
            Value<std::decay_t<Result>>::write(out, std::apply(function, arguments));
        } catch (const std::exception &error) {
            std::fprintf(stderr, "exception: %s\n", error.what());
            out = "\"!";
        } catch (...) {
            out = "\"!";
        }
        std::fprintf(results, "%s\"\n", out.c_str());
        std::fflush(results);
    }
    return 0;
}

}  // namespace agentgym_wire
