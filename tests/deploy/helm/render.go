// SPDX-License-Identifier: Apache-2.0

// Renders a chart's templates as Helm does, by the same template language, with those functions of Helm's that ours use. What a
// template has to look like for others is Helm's: this isn't it, and knows no other charts.
//
//	go run render.go TEMPLATES <values.json     where values.json has the objects Release, Chart and Values
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func main() {
	var values map[string]any
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	check(decoder.Decode(&values))
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*"))
	check(err)
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(spaces int, text string) string {
			pad := strings.Repeat(" ", spaces)
			return "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		},
		"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"toJson": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"default": func(other, value any) any {
			if value == nil || value == "" {
				return other
			}
			return value
		},
	})
	_, err = all.ParseFiles(files...)
	check(err)
	for _, file := range files {
		if strings.HasSuffix(file, ".yaml") {
			fmt.Println("---")
			check(all.ExecuteTemplate(os.Stdout, filepath.Base(file), values))
		} else if strings.HasSuffix(file, ".txt") { // what Helm prints once it has installed the chart: here a comment
			var notes bytes.Buffer
			check(all.ExecuteTemplate(&notes, filepath.Base(file), values))
			fmt.Println("# " + strings.ReplaceAll(strings.TrimSpace(notes.String()), "\n", "\n# "))
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
