# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $work and $running are common.sh's
# Debian's Tomcat and its native library, for the scripts of this folder, which source common.sh before.

find_tomcat() { # classes: its libraries by their names without a version, as a class path; native: its native library
  classes=$(find /usr/share/java -name 'tomcat9-*.jar' ! -name '*-[0-9]*.jar' | paste -sd :)
  native=$(find /usr/lib -name libtcnative-1.so -print -quit)
  for package in "libtomcat9-java=$classes" "libtcnative-1=$native"; do
    [ "${package#*=}" ] || fail "${package%%=*} isn't installed: run tools/setup" /dev/null
  done
}

tomcat_version() { # JAVA
  "$1" -cp "$classes" org.apache.catalina.util.ServerInfo | sed -n 's/^Server version: *//p'
}

tomcat_on() { # CONFIGURATION PORT JAVA, then properties of the configuration: until it listens on that port
  mkdir "$work"/{conf,logs,temp,www}
  cp "examples/tomcat/$1" "$work/conf/server.xml"
  cp examples/tomcat/web.xml "$work/conf"
  echo 'Hello.' >"$work/www/index.html"
  serve tomcat "$2" "$3" -Xmx256m "-Djava.library.path=$(dirname "$native")" "-Dcatalina.home=$work" "-Dcatalina.base=$work" \
    "${@:4}" -cp "$classes" org.apache.catalina.startup.Tomcat --catalina start
}
