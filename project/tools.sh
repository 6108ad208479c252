#!/bin/sh
# Says which tools of this machine are missing or too old, a line each, and fails if there are any: `make` runs it before
# it builds or installs. `sh project/tools.sh PYTHON`, from the root of the project; PYTHON is the command of Python.
#
# Maven only fetches sbt, and Python only makes the environment, so neither is asked for once that is there.

status=0
missing() {
	echo "$1" >&2
	status=1
}

# The first number of a version; 8 of 1.8.
java_major() {
	"$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

if ! command -v java >/dev/null 2>&1; then
	missing "java is missing: install a JDK 17 or newer (Debian: openjdk-17-jdk-headless)."
else
	java=$(command -v java)
	major=$(java_major "$java")
	if [ "${major:-0}" -lt 17 ]; then
		missing "$java is version ${major:-unknown}, and a JDK 17 or newer is needed: put one first in PATH."
	elif ! command -v javac >/dev/null 2>&1 && ! [ -x "$(dirname "$(readlink -f "$java")")/javac" ]; then
		missing "$java has no compiler (javac): install a JDK 17 or newer (Debian: openjdk-17-jdk-headless)."
	fi
fi

# PySpark starts this one, and not the first in PATH.
if [ -n "$JAVA_HOME" ]; then
	major=$(java_major "$JAVA_HOME/bin/java")
	if [ "${major:-0}" -lt 17 ]; then
		missing "JAVA_HOME=$JAVA_HOME is version ${major:-unknown}, and a JDK 17 or newer is needed: change or unset it."
	fi
fi

if ! [ -e .tools/sbt-launch.jar ] && ! command -v mvn >/dev/null 2>&1; then
	missing "mvn is missing: install Maven (Debian: maven)."
fi

if ! [ -e .venv/.installed ]; then
	if ! "$1" --version >/dev/null 2>&1; then
		missing "$1 is missing: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3.12."
	elif ! "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		version=$("$1" --version 2>&1)
		missing "$1 is $version, and Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12."
	elif ! "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; then
		missing "$1 cannot make environments: install its module venv (Debian: python3-venv)."
	fi
fi

exit $status
