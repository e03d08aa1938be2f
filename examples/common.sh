# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the examples share; their `run` sources it and calls `begin` first. Servers stay on loopback, in a temporary folder, $work,
# which is gone with them at the end, also when interrupted.
set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
PATH=$PATH:/usr/sbin
short='' # set by --short
work=''
declare -A running=() # PIDs by name
folders=()            # removed at the end, $work among them
measured=()           # NAME=FILE of each measurement, for side_by_side

begin() { # the script's arguments
  case "$*" in
    '') ;;
    --short) short=yes ;;
    *) echo "usage: $0 [--short]" >&2; exit 2 ;;
  esac
  clean_up_at_the_end
}

clean_up_at_the_end() {
  work=$(mktemp -d)
  folders+=("$work")
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

finish() {
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "${folders[@]}"
}

fail() { # WORDS, FILE…: what went wrong, and the end of what was said
  echo "$0: $1" >&2
  tail -n 5 "${@:2}" >&2
  exit 1
}

needs() { # PROGRAM…
  for program in "$@"; do
    command -v "$program" >/dev/null || fail "$program isn't installed: run tools/setup" /dev/null
  done
}

by_length() { # WHOLE SHORT: the first, with --short the second
  if [ "$short" ]; then echo "$2"; else echo "$1"; fi
}

on_what() { # VERSION…: the programs, and the machine
  printf '%s, ' "$@" "$(uname -sr)"
  echo "$(nproc) processors"
}

certificate() { # NAME, then the options of its key
  openssl req -x509 -newkey "${@:2}" -nodes -days 90 -subj /CN=localhost -keyout "$work/$1.key" -out "$work/$1.crt" 2>/dev/null
}

free_ports() { # COUNT: ports that nothing listens on, all different
  python3 - "$1" <<'PYTHON'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(each.getsockname()[1] for each in held))
PYTHON
}

wait_until() { # SECONDS COMMAND…: whether it succeeds within that time
  local tries=$(($1 * 20))
  until "${@:2}"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.05
  done
}

listens() { # PORT
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

launch() { # NAME COMMAND…: in the background, what it says in $work/NAME.log
  : >"$work/$1.log" # nothing of a namesake before it
  "${@:2}" </dev/null >"$work/$1.log" 2>&1 &
  running[$1]=$!
}

gone() { # NAME: whether it has ended
  ! kill -0 "${running[$1]}" 2>/dev/null
}

await() { # NAME WHAT COMMAND…: until the command succeeds; an error where that doesn't come about, or the program has ended
  if ! wait_until 30 or_gone "$1" "${@:3}" || gone "$1"; then fail "$1 $2" "$work/$1.log"; fi
}

or_gone() { # NAME COMMAND…
  "${@:2}" || gone "$1"
}

serve() { # NAME PORT COMMAND…: a server, until it listens
  launch "$1" "${@:3}"
  await "$1" "doesn't listen on port $2" listens "$2"
}

stop() { # NAME…: asked to end, and waited for
  for name in "$@"; do
    kill -TERM "${running[$name]}"
    wait "${running[$name]}" || true
    unset "running[$name]"
  done
}

nginx_conf() { # the http block's own lines on standard input: a whole configuration on standard output
  mkdir -p "$work/www"
  echo 'Hello.' >"$work/www/index.html"
  [ "$(id -u)" != 0 ] || echo "user root;" # $work is closed to all others
  echo "daemon off; worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log;"
  echo "events { worker_connections 1024; }"
  echo "http { access_log off; root $work/www; keepalive_requests 1000000; ssl_protocols TLSv1.2 TLSv1.3;"
  for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done
  cat
  echo "}"
}

nginx_on() { # PORT: with the configuration that stands in $work/nginx.conf
  serve nginx "$1" nginx -p "$work" -c "$work/nginx.conf"
}

measure_plain() { # NAME TITLE, then h2load's arguments: what it says of a server without TLS
  printf '\n### %s\n' "$2"
  h2load "${@:3}" >"$work/$1.txt" 2>"$work/words" || fail "the load \"$2\" failed" "$work/words"
  grep -E '^(finished|requests)' "$work/$1.txt"
  measured+=("$1=$work/$1.txt")
}

measure() { # NAME TITLE, then the arguments of `ssllatency load`, run in $work: its report; and the measurement, for side_by_side
  local program=$PWD/tools/ssllatency
  printf '\n### %s\n' "$2"
  (cd "$work" && "$program" load --json --exact "${@:3}") >"$work/$1.json" 2>"$work/words" || fail "the load \"$2\" failed" "$work/words"
  tools/ssllatency report "$work/$1.json"
  measured+=("$1=$work/$1.json")
}

side_by_side() { # the options of side_by_side.py, and "${measured[@]}"
  printf '\n### Side by side\n'
  PYTHONPATH=python build/venv/bin/python examples/side_by_side.py "$@"
}

what_changed() { # BEFORE AFTER: the beginning of `ssllatency diff`
  printf '\n### From %s to %s\n' "$1" "$2"
  local program=$PWD/tools/ssllatency
  (cd "$work" && "$program" diff --all-rows "$1.json" "$2.json") | sed '/^Mean /,$d' | sed '$d' # the empty line, too
}
