//! Decides whether a value is a secret, by its characters and by known harmless forms.

/// Placeholders, such as `changeme`.
const NO_VALUES: [&str; 30] = [
    "null",
    "none",
    "nil",
    "true",
    "false",
    "undefined",
    "string",
    "str",
    "bool",
    "optional",
    "required",
    "password",
    "passwd",
    "pass",
    "secret",
    "token",
    "changeme",
    "change-me",
    "change_me",
    "changeit",
    "example",
    "redacted",
    "hidden",
    "empty",
    "test",
    "prompt",
    "text",
    "varchar",
    "todo",
    "removed",
];

/// Prefixes of placeholders and references.
const PLACEHOLDER_STARTS: [&str; 18] = [
    "your",
    "my-",
    "my_",
    "process.env",
    "os.environ",
    "env.",
    "env:",
    "example",
    "insert",
    "replace",
    "dummy",
    "placeholder",
    "sample",
    "xxx",
    "arn:",
    "vault:",
    "op://",
    "!secret",
];

/// Whether a value is only a placeholder: `<password>`, `${TOKEN}`, `****`, `your-token-here`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let start: String = value.chars().take(24).collect::<String>().to_ascii_lowercase();
    value.starts_with(['<', '$', '{', '[', '%', '('])
        || value.contains("{{")
        || value.contains("${")
        || value.chars().all(|c| "*.xX-_…•#?".contains(c))
        || NO_VALUES.contains(&start.as_str())
        || PLACEHOLDER_STARTS.iter().any(|head| start.starts_with(head))
}

/// Whether a word is a password by its looks. A quoted or directly assigned word needs no
/// digits.
pub(super) fn is_password(value: &str, is_explicit: bool, is_quoted: bool) -> bool {
    let chars = value.chars().count();
    let is_code = !is_quoted && (value.contains(['(', '[', '{', '$']) || is_expression(value));
    chars >= 4
        && !is_code
        && !value.contains(' ')
        && !value.contains("::")
        && !value.contains("://")
        && (is_explicit || (chars >= 6 && has_odd(value)))
        && !is_placeholder(value)
}

/// Whether a word in a sentence is a password: it mixes letters, digits and other signs.
pub(super) fn is_spoken_password(value: &str) -> bool {
    let has = |is: fn(char) -> bool| value.chars().any(is);
    let is_mixed = has(|c| c.is_ascii_uppercase()) && has(|c| c.is_ascii_lowercase());
    let has_sign = has(|c| "!@#$%^&*+=~?".contains(c));
    (8..=64).contains(&value.len())
        && has(|c| c.is_ascii_digit())
        && has(char::is_alphabetic)
        && (is_mixed || has_sign)
        && !value.contains(['(', '/', '['])
        && !is_placeholder(value)
}

fn has_odd(value: &str) -> bool {
    value.chars().any(|c| c.is_ascii_digit() || "!@#%^&*+=~?".contains(c))
}

/// Whether a value is long and random.
pub(super) fn is_random(value: &str, is_quoted: bool) -> bool {
    const MIN_LENGTH: usize = 12;
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let (letters, digits) = (count(u8::is_ascii_alphabetic), count(u8::is_ascii_digit));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+/=~:%".contains(&byte);
    let is_plain = value.bytes().all(plain);
    let is_mixed = count(u8::is_ascii_uppercase) > 0 && count(u8::is_ascii_lowercase) > 0;
    (is_plain || is_symbol_key(value))
        && value.len() >= MIN_LENGTH
        && letters >= 3
        && (digits >= 2 || (is_mixed && value.len() >= 20))
        && entropy(value) >= 3.0
        && !is_reference(value)
        && (is_quoted || !is_expression(value))
        && !is_made_of_words(value)
        && !is_placeholder(value)
}

/// Whether a value has the signs of a generated key, like Django's.
fn is_symbol_key(value: &str) -> bool {
    let signs = value.bytes().filter(|byte| b"!@#$%^&*".contains(byte)).count();
    value.len() >= 20 && signs >= 2 && value.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a value is base64 as in `user:password`, encoded.
pub(super) fn is_encoded_login(value: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    value.len() >= 8
        && value.len().is_multiple_of(4)
        && value.bytes().all(is_base64)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && (has(u8::is_ascii_digit) || value.len() >= 12)
}

/// Whether a value is an address or a path.
fn is_reference(value: &str) -> bool {
    let is_path = value.starts_with(['/', '.', '~']) && value.contains('/');
    value.contains("://") || (is_path && !value.contains(['+', '=']))
}

/// Whether a value is code: `config.secret`, `db_password`, `a::b`.
fn is_expression(value: &str) -> bool {
    // Names carry digits at the end of a word, and random text anywhere.
    let is_word = |word: &str| {
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let is_identifier = |part: &str| {
        !part.starts_with(|c: char| c.is_ascii_digit()) && part.split('_').all(is_word)
    };
    let lower = value.to_ascii_lowercase();
    let names_itself = ["password", "passwd", "secret", "token"].iter().any(|w| lower.contains(w));
    let path = value.trim_end_matches(['?', '.']);
    path.split(['.', ':']).filter(|part| !part.is_empty()).all(is_identifier)
        && (path.contains(['.', ':']) || names_itself)
}

/// Whether every part of a value is a word or a short number: `prod-eu-west-1`, `gpt_4_turbo`.
fn is_made_of_words(value: &str) -> bool {
    let is_word = |part: &str| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = part.len() - word.len();
        let rest = word.get(1..).unwrap_or_default();
        let is_number = word.is_empty() && digits <= 8;
        let is_name = digits <= 4
            && word.bytes().all(|byte| byte.is_ascii_alphabetic())
            && (rest.bytes().all(|byte| byte.is_ascii_lowercase())
                || word.bytes().all(|byte| byte.is_ascii_uppercase()));
        is_number || (is_name && word.len() <= 20)
    };
    value.split(['-', '_', '.', ':', '/']).all(is_word)
}

/// The Shannon entropy in bits per character: above three for random text, below for most
/// words.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let probability = |count: &u32| f64::from(*count) / total;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| -probability(count) * probability(count).log2())
        .sum()
}
