//! Replaces values that differ from run to run: names that are invented each time.

/// The UUIDs of a run, numbered in the order in which they come.
#[derive(Default)]
pub struct Names {
    known: Vec<String>,
}

impl Names {
    /// The text with its UUIDs replaced by their numbers.
    pub fn normal(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let name = rest.get(..36).filter(|it| is_uuid(it));
            match name {
                Some(name) => out += &self.number(name),
                None => out.push(first),
            }
            rest = &rest[name.map_or(first.len_utf8(), str::len)..];
        }
        out
    }

    fn number(&mut self, name: &str) -> String {
        let found = self.known.iter().position(|it| it == name);
        let number = found.unwrap_or_else(|| {
            self.known.push(name.to_owned());
            self.known.len() - 1
        });
        format!("name {number}")
    }
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
