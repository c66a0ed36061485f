// Values as words; see wire.py. Calls a method of the class Solution, whose declaration says how arguments are read.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

class AgentgymDriver {
    public static void main(String[] names) throws Exception {
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream results = System.out;
        System.setIn(InputStream.nullInputStream());
        System.setOut(System.err);
        Method method = find(names[0]);
        Object owner = Modifier.isStatic(method.getModifiers()) ? null : create();
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            results.print('"' + answer(method, owner, line.replace("\"", "")) + "\"\n");
            results.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Method find(String name) throws Exception {
        for (Method method : Class.forName("Solution").getDeclaredMethods()) {
            if (method.getName().equals(name) && !method.isSynthetic()) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new NoSuchMethodException("class Solution has no method " + name);
    }

    private static Object create() throws Exception {
        Constructor<?> constructor = Class.forName("Solution").getDeclaredConstructor();
        constructor.setAccessible(true);
        return constructor.newInstance();
    }

    private static String answer(Method method, Object owner, String line) {
        try {
            Iterator<String> words = Arrays.asList(line.split(" ")).iterator();
            List<Object> arguments = new ArrayList<>();
            for (Type type : method.getGenericParameterTypes()) arguments.add(read(type, words, words.hasNext() ? words.next() : ""));
            StringBuilder out = new StringBuilder("=");
            write(out, method.invoke(owner, arguments.toArray()));
            return out.toString();
        } catch (Throwable error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.err.println(cause);
            for (StackTraceElement element : Arrays.asList(cause.getStackTrace()).subList(0, Math.min(5, cause.getStackTrace().length))) {
                System.err.println("    at " + element);
            }
            return "!";
        }
    }

    private static Object read(Type type, Iterator<String> words, String word) {
        String rest = word.isEmpty() ? "" : word.substring(1);
        if (type instanceof ParameterizedType) {
            Type[] inner = ((ParameterizedType) type).getActualTypeArguments();
            if (((ParameterizedType) type).getRawType() == Optional.class) {
                return word.equals("n") ? Optional.empty() : Optional.of(read(inner[0], words, word));
            }
            if (inner.length == 1) return readList(inner[0], words, rest);
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (int n = Integer.parseInt(rest); n > 0; n--) {
                Object key = read(inner[0], words, words.next());
                entries.put(key, read(inner[1], words, words.next()));
            }
            return entries;
        }
        if (word.equals("n")) return null;
        Class<?> kind = (Class<?>) type;
        if (kind.isArray()) {
            List<Object> items = readList(kind.getComponentType(), words, rest);
            Object array = Array.newInstance(kind.getComponentType(), items.size());
            for (int i = 0; i < items.size(); i++) Array.set(array, i, items.get(i));
            return array;
        }
        if (kind == int.class || kind == Integer.class) return Integer.valueOf(rest);
        if (kind == long.class || kind == Long.class) return Long.valueOf(rest);
        if (kind == double.class || kind == Double.class) return readDouble(rest);
        if (kind == float.class || kind == Float.class) return (float) readDouble(rest);
        if (kind == boolean.class || kind == Boolean.class) return word.equals("t");
        if (kind == String.class) return readText(rest);
        throw new IllegalArgumentException("no argument can be of type " + type);
    }

    private static List<Object> readList(Type item, Iterator<String> words, String count) {
        List<Object> items = new ArrayList<>();
        for (int n = Integer.parseInt(count); n > 0; n--) items.add(read(item, words, words.next()));
        return items;
    }

    private static double readDouble(String text) {
        if (text.equals("nan")) return Double.NaN;
        if (text.endsWith("inf")) return text.startsWith("-") ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
        return Double.parseDouble(text);
    }

    private static String readText(String hex) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i + 1 < hex.length(); i += 2) bytes.write(Integer.parseInt(hex.substring(i, i + 2), 16));
        return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    }

    private static void write(StringBuilder out, Object value) {
        if (out.charAt(out.length() - 1) != '=') out.append(' ');
        if (value == null) {
            out.append('n');
        } else if (value instanceof Boolean) {
            out.append((Boolean) value ? 't' : 'F');
        } else if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            if (Double.isNaN(number)) out.append("fnan");
            else if (Double.isInfinite(number)) out.append(number > 0 ? "finf" : "f-inf");
            else out.append('f').append(number);
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof BigInteger) {
            out.append('i').append(value);
        } else if (value instanceof CharSequence) {
            out.append('s');
            for (byte part : value.toString().getBytes(StandardCharsets.UTF_8)) out.append(String.format("%02x", part));
        } else if (value instanceof Optional) {
            out.setLength(out.length() - (out.charAt(out.length() - 1) == ' ' ? 1 : 0));
            write(out, ((Optional<?>) value).orElse(null));
        } else if (value instanceof Iterable) {
            List<Object> items = new ArrayList<>();
            ((Iterable<?>) value).forEach(items::add);
            out.append('l').append(items.size());
            for (Object item : items) write(out, item);
        } else if (value.getClass().isArray()) {
            out.append('l').append(Array.getLength(value));
            for (int i = 0; i < Array.getLength(value); i++) write(out, Array.get(value, i));
        } else if (value instanceof Map) {
            out.append('m').append(((Map<?, ?>) value).size());
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                write(out, entry.getKey());
                write(out, entry.getValue());
            }
        } else {
            throw new IllegalArgumentException("no result can be of " + value.getClass());
        }
    }
}
