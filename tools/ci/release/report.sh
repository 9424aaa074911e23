#!/bin/sh
# Checks the card and writes report.json and report.md into the current folder, or where `--out FOLDER` says. Takes the options of `ops check`.
exec "$(dirname "$0")/ops" check "$@"
