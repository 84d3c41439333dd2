//! Parses selectors. The grammar is Kubernetes' own: requirements are joined by commas, and blanks
//! may be anywhere between tokens.

use super::selector::{Requirement, Selector, Test};
use crate::SelectorError;

/// Signs that are tokens by themselves, the longer ones first. All other text is split into words
/// by these signs and by blanks.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn selector(text: &str) -> Result<Selector, SelectorError> {
    let mut tokens = Tokens { text, at: 0 };
    let mut requirements = Vec::new();
    if tokens.peek().is_end() {
        return Ok(Selector::all(requirements));
    }
    loop {
        requirements.push(tokens.requirement()?);
        let token = tokens.next();
        match token.text {
            "" => return Ok(Selector::all(requirements)),
            "," => {}
            _ => return Err(tokens.unexpected(&token, "a comma or the end")),
        }
    }
}

/// A word, a sign, or the empty token at the end.
struct Token<'a> {
    /// The position of the token's first byte in the text of the selector.
    at: usize,
    text: &'a str,
}

impl Token<'_> {
    fn is_end(&self) -> bool {
        self.text.is_empty()
    }

    fn is_word(&self) -> bool {
        !self.is_end() && !SIGNS.contains(&self.text)
    }
}

struct Tokens<'a> {
    text: &'a str,
    /// The position in `text` of the next byte to read.
    at: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        let rest = self.text[self.at..].trim_start_matches(BLANKS);
        let ends = |(at, _): &(usize, char)| {
            rest[*at..].starts_with(BLANKS)
                || SIGNS.iter().any(|sign| rest[*at..].starts_with(sign))
        };
        let length = match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => sign.len(),
            None => rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at),
        };
        Token { at: self.text.len() - rest.len(), text: &rest[..length] }
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = token.at + token.text.len();
        token
    }

    fn unexpected(&self, token: &Token<'_>, expected: &'static str) -> SelectorError {
        let at = self.text[..token.at].chars().count() + 1;
        let found = if token.is_end() { "the end".to_owned() } else { format!("{:?}", token.text) };
        SelectorError::Syntax { at, found, expected }
    }

    fn word(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        let token = self.next();
        if token.is_word() {
            Ok(token.text.to_owned())
        } else {
            Err(self.unexpected(&token, expected))
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek().text == "!" {
            self.next();
            return Requirement::new(self.word("a label key")?, Test::Absent);
        }
        let key = self.word("a label key or '!'")?;
        let test = match self.peek().text {
            "" | "," => Test::Exists,
            _ => self.test(&key)?,
        };
        Requirement::new(key, test)
    }

    /// Reads an operator and its operands. Here `in` and `notin` are operators; anywhere else they
    /// are words.
    fn test(&mut self, key: &str) -> Result<Test, SelectorError> {
        let operator = self.next();
        Ok(match operator.text {
            "=" | "==" => Test::In(vec![self.value()?]),
            "!=" => Test::NotIn(vec![self.value()?]),
            "in" => Test::In(self.values()?),
            "notin" => Test::NotIn(self.values()?),
            ">" => Test::Above(self.number(key)?),
            "<" => Test::Below(self.number(key)?),
            _ => return Err(self.unexpected(&operator, "=, ==, !=, in, notin, > or <")),
        })
    }

    /// Reads one value, which may be empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek().text {
            "" | "," => Ok(String::new()),
            _ => self.word("a value"),
        }
    }

    /// Reads values between parentheses. Two commas in a row have an empty value between them.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let opening = self.next();
        if opening.text != "(" {
            return Err(self.unexpected(&opening, "'('"));
        }
        let mut values = Vec::new();
        loop {
            match self.peek().text {
                "," | ")" => values.push(String::new()),
                _ => values.push(self.word("a value, ',' or ')'")?),
            }
            let token = self.next();
            match token.text {
                "," => {}
                ")" => return Ok(values),
                _ => return Err(self.unexpected(&token, "',' or ')'")),
            }
        }
    }

    /// Reads a whole number. It has digits only, because it must also be a valid label value.
    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value()?;
        super::label::check_value(key, &value)?;
        value.parse().map_err(|_| SelectorError::Number { key: key.to_owned(), value })
    }
}
