//! One recorded request, and how its answers are compared.

use std::borrow::Cow;

use http::Method;
use serde_json::Value;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const OPERATIONS: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// How the answers to a request are compared, besides their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The answers are equal.
    Equal,
    /// Everything in the test kit's answer is in the real server's, which adds defaults.
    Contained,
    /// The answers have the same kind, and the same reason if they are Statuses: their messages
    /// differ.
    Reason,
}

/// A request that both servers get.
#[derive(Clone, Debug)]
pub struct Step {
    pub method: Method,
    pub path: String,
    pub content_type: Cow<'static, str>,
    /// The form in which the client wants the answer; empty for any.
    pub accept: String,
    /// The body. Here and in the path, `${NAME.uid}`, `${NAME.version}` and `${NAME.continue}`
    /// stand for values of earlier answers.
    pub body: String,
    pub comparison: Comparison,
    /// The name under which later requests use the uid, version and page token of the answer.
    pub name: Option<String>,
}

impl Step {
    fn new(method: Method, path: impl Into<String>, body: String) -> Self {
        Self {
            method,
            path: path.into(),
            content_type: JSON.into(),
            accept: String::new(),
            body,
            comparison: Comparison::Equal,
            name: None,
        }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, String::new())
    }

    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path, body.to_string())
    }

    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path, body.to_string())
    }

    pub fn patch(path: impl Into<String>, content_type: &'static str, body: &Value) -> Self {
        Self {
            content_type: content_type.into(),
            ..Self::new(Method::PATCH, path, body.to_string())
        }
    }

    /// Applies a configuration as this manager.
    pub fn apply(path: &str, manager: &str, body: &Value) -> Self {
        Self::patch(format!("{path}?fieldManager={manager}"), APPLY, body)
    }

    pub fn delete(path: impl Into<String>, body: &Value) -> Self {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Self::new(Method::DELETE, path, body)
    }

    /// Sends a body that need not be JSON.
    pub fn raw(method: Method, path: impl Into<String>, body: &str) -> Self {
        Self::new(method, path, body.to_owned())
    }

    /// Sends the body with this content type.
    pub fn typed(self, content_type: &'static str) -> Self {
        Self { content_type: content_type.into(), ..self }
    }

    /// Asks for the answer in this form.
    pub fn accepting(self, accept: &str) -> Self {
        Self { accept: accept.to_owned(), ..self }
    }

    pub fn contained(self) -> Self {
        Self { comparison: Comparison::Contained, ..self }
    }

    pub fn reason(self) -> Self {
        Self { comparison: Comparison::Reason, ..self }
    }

    pub fn named(self, name: &'static str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }
}
