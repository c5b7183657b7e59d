//! Identifiers of the API in plain words, and phrases that several sections of the page share.

/// Before what the page says about a state that may have changed.
pub(super) const BEFORE: &str = "Last known state: ";

/// A word in CamelCase such as `AllReplicasUpdated` in words: "All replicas updated". A text that
/// is not one identifier stays as it is.
pub fn words(identifier: &str) -> String {
    if identifier.contains(|letter: char| !letter.is_ascii_alphanumeric()) {
        return identifier.to_owned();
    }
    let letters: Vec<char> = identifier.chars().collect();
    let mut words = String::new();
    for (position, letter) in letters.iter().enumerate() {
        let before = position.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(position + 1);
        let begins = before.is_some_and(|before| !before.is_uppercase())
            || before.is_some() && after.is_some_and(|after| after.is_lowercase());
        if !letter.is_uppercase() || !begins {
            words.push(*letter);
        } else if after.is_some_and(|after| after.is_lowercase()) {
            words.push(' ');
            words.extend(letter.to_lowercase());
        } else {
            words.push(' ');
            words.push(*letter);
        }
    }
    words
}

/// A message as a sentence: with a capital first letter, unless it begins with a name.
pub(super) fn sentence(message: &str) -> String {
    let first = message.split(' ').next().unwrap_or_default();
    if first.contains(|letter: char| !letter.is_ascii_lowercase()) {
        return message.to_owned();
    }
    let mut letters = message.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

/// The status of a condition in plain words.
pub(super) fn status(status: &str) -> &str {
    match status {
        "True" => "yes",
        "False" => "no",
        "Unknown" => "not known",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_a_capital_letter_or_a_name() {
        assert_eq!(sentence("waiting for m-0"), "Waiting for m-0");
        assert_eq!(sentence("m-0 has no node"), "m-0 has no node");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn a_reason_becomes_words_and_abbreviations_stay() {
        for (reason, shown) in [
            ("AllReplicasUpdated", "All replicas updated"),
            ("FailedCreate", "Failed create"),
            ("EtcdMemberHealthy", "Etcd member healthy"),
            ("APIServerPodHealthy", "API server pod healthy"),
            ("InvalidAPI", "Invalid API"),
            ("AsExpected", "As expected"),
            ("", ""),
            ("already in words", "already in words"),
        ] {
            assert_eq!(words(reason), shown);
        }
    }
}
