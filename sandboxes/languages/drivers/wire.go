// Values as words; see wire.py. The declaration of the function says how its arguments are read.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
)

type judgeWords struct {
	words []string
	next  int
}

func (in *judgeWords) word() string {
	in.next++
	return in.words[in.next-1]
}

func (in *judgeWords) read(kind reflect.Type) reflect.Value {
	value := reflect.New(kind).Elem()
	if kind.Kind() == reflect.Ptr {
		if in.words[in.next] == "n" {
			in.next++
			return value
		}
		value.Set(reflect.New(kind.Elem()))
		value.Elem().Set(in.read(kind.Elem()))
		return value
	}
	word := in.word()
	rest := word[1:]
	switch kind.Kind() {
	case reflect.Bool:
		value.SetBool(word == "t")
	case reflect.Float32, reflect.Float64:
		number, _ := strconv.ParseFloat(rest, 64)
		value.SetFloat(number)
	case reflect.String:
		bytes, _ := hex.DecodeString(rest)
		value.SetString(string(bytes))
	case reflect.Slice:
		count, _ := strconv.Atoi(rest)
		value.Set(reflect.MakeSlice(kind, count, count))
		for i := 0; i < count; i++ {
			value.Index(i).Set(in.read(kind.Elem()))
		}
	case reflect.Map:
		count, _ := strconv.Atoi(rest)
		value.Set(reflect.MakeMap(kind))
		for i := 0; i < count; i++ {
			key := in.read(kind.Key())
			value.SetMapIndex(key, in.read(kind.Elem()))
		}
	default:
		number, _ := strconv.ParseInt(rest, 10, 64)
		value.SetInt(number)
	}
	return value
}

func judgeWrite(out []string, value reflect.Value) []string {
	switch value.Kind() {
	case reflect.Ptr, reflect.Interface:
		if value.IsNil() {
			return append(out, "n")
		}
		return judgeWrite(out, value.Elem())
	case reflect.Bool:
		if value.Bool() {
			return append(out, "t")
		}
		return append(out, "F")
	case reflect.Float32, reflect.Float64:
		number := value.Float()
		if math.IsInf(number, 0) || math.IsNaN(number) {
			return append(out, "f"+strings.TrimPrefix(strings.ToLower(fmt.Sprint(number)), "+"))
		}
		return append(out, "f"+strconv.FormatFloat(number, 'g', -1, 64))
	case reflect.String:
		return append(out, "s"+hex.EncodeToString([]byte(value.String())))
	case reflect.Slice, reflect.Array:
		out = append(out, "l"+strconv.Itoa(value.Len()))
		for i := 0; i < value.Len(); i++ {
			out = judgeWrite(out, value.Index(i))
		}
		return out
	case reflect.Map:
		out = append(out, "m"+strconv.Itoa(value.Len()))
		for _, key := range value.MapKeys() {
			out = judgeWrite(judgeWrite(out, key), value.MapIndex(key))
		}
		return out
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return append(out, "i"+strconv.FormatInt(value.Int(), 10))
	}
	panic("no result can be of type " + value.Type().String())
}

func judgeAnswer(function reflect.Value, line string) (reply string) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintln(os.Stderr, "panic:", problem)
			reply = "!"
		}
	}()
	in := &judgeWords{words: strings.Split(strings.Trim(line, "\"\n"), " ")}
	arguments := make([]reflect.Value, function.Type().NumIn())
	for i := range arguments {
		arguments[i] = in.read(function.Type().In(i))
	}
	return "=" + strings.Join(judgeWrite(nil, function.Call(arguments)[0]), " ")
}

func judgeServe(function interface{}) {
	calls := bufio.NewReader(os.NewFile(3, "calls"))
	results := os.NewFile(4, "results")
	for {
		line, err := calls.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprintf(results, "\"%s\"\n", judgeAnswer(reflect.ValueOf(function), line))
	}
}
