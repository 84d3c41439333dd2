//! Objects as rows of tables, for which `kubectl get` asks.
//!
//! The columns are those of a custom resource whose definition names none: the name and the age.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Resource;
use crate::object::{Object, Shape, text};

/// The part of an object that its row contains (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    Nothing,
    Metadata,
    Object,
}

const KIND: &str = "Table";
const API_VERSION: &str = "meta.k8s.io/v1";
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a \
     client to request the generation of an appropriate name automatically. Name is primarily intended for creation \
     idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
     guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the columns, with the descriptions of the real server.
fn columns() -> Value {
    let column = |name: &str, kind: &str, format: &str, description: &str| {
        json!({
            "name": name, "type": kind, "format": format, "description": description, "priority": 0,
        })
    };
    json!([column("Name", "string", "name", NAME), column("Age", "date", "", AGE)])
}

/// Returns the start of a table with these metadata. Its rows and `]}` follow.
pub(crate) fn head(metadata: &Value) -> String {
    let columns = columns();
    format!(
        "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
    )
}

/// Returns a table with one row. Of the events of a watch, only the first has the columns.
pub(crate) fn of_one(row: &Value, version: &str, has_columns: bool) -> Value {
    json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": { "resourceVersion": version },
        "columnDefinitions": if has_columns { columns() } else { Value::Null },
        "rows": [row],
    })
}

/// Returns the row of an object.
pub(crate) fn row(object: &Object, resource: &Resource, included: Included) -> Value {
    let shown = match included {
        Included::Nothing => Value::Null,
        Included::Metadata => object.to_json(resource, Shape::Partial),
        Included::Object => object.to_json(resource, Shape::Whole),
    };
    let created = text(&object.draft.metadata, "creationTimestamp").parse::<Timestamp>();
    let age = created.ok().map(|created| age(Timestamp::now().as_second() - created.as_second()));
    json!({ "cells": [object.key.name, age], "object": shown })
}

/// Returns an age in the words of `kubectl`, for example `5m30s`.
fn age(seconds: i64) -> String {
    let two = |large: i64, small: i64, units: [char; 2]| match small {
        0 => format!("{large}{}", units[0]),
        _ => format!("{large}{}{small}{}", units[0], units[1]),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    let days = hours / 24;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, seconds % 60, ['m', 's']),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, minutes % 60, ['h', 'm']),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, hours % 24, ['d', 'h']),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, days % 365, ['y', 'd']),
        252_288_000.. => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn age_has_one_or_two_units() {
        const HOUR: i64 = 3_600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (599 + 60, "10m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * 365 * DAY, "2y"),
            (2 * 365 * DAY + DAY, "2y1d"),
            (9 * 365 * DAY, "9y"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
