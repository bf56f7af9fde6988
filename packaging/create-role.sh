#!/usr/bin/env bash
# Creates the role and the database of Treering. The role is no superuser, so that row-level security applies to it.
set -euo pipefail
password=$(cat /run/secrets/postgres-password)
psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --set password="$password" <<'SQL'
CREATE ROLE treering LOGIN PASSWORD :'password';
CREATE DATABASE treering OWNER treering;
SQL
