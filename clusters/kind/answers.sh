#!/bin/sh
# Stands for docker while kind checks a configuration, so that it needs none and makes nothing.
case "$1" in
  info) echo '{}' ;;
  ps | inspect) ;;
  *) exit 1 ;;
esac
