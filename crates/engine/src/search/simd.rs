//! The two loops that search spends its time in, compiled for the processor at hand.

// Plain loops: what a closure does would be compiled for the baseline again.

/// How many bits each row shares with the wanted one.
#[inline(always)]
fn agreements_of(rows: &[u64], wanted: &[u64], dims: u32, out: &mut Vec<u16>) {
    // The usual lengths are spelt out, so that the inner loop is unrolled.
    match wanted.len() {
        0 => {}
        4 => agreements_in::<4>(rows, wanted, dims, out),
        6 => agreements_in::<6>(rows, wanted, dims, out),
        words => {
            for row in rows.chunks_exact(words) {
                out.push(agreement(row, wanted, dims));
            }
        }
    }
}

#[inline(always)]
fn agreements_in<const WORDS: usize>(rows: &[u64], wanted: &[u64], dims: u32, out: &mut Vec<u16>) {
    let (rows, _) = rows.as_chunks::<WORDS>();
    let start = out.len();
    out.resize(start + rows.len(), 0);
    for (out, row) in out[start..].iter_mut().zip(rows) {
        *out = agreement(row, &wanted[..WORDS], dims);
    }
}

#[inline(always)]
fn agreement(row: &[u64], wanted: &[u64], dims: u32) -> u16 {
    let mut differ = 0;
    let mut place = 0;
    while place < row.len() {
        differ += (row[place] ^ wanted[place]).count_ones();
        place += 1;
    }
    (dims - differ.min(dims)) as u16
}

#[inline(always)]
fn product_of(a: &[i8], b: &[i8]) -> i32 {
    let (mut sum, mut place) = (0, 0);
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    while place < length {
        sum += i32::from(a[place]) * i32::from(b[place]);
        place += 1;
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn agreements(rows: &[u64], wanted: &[u64], dims: u32, out: &mut Vec<u16>) {
        super::agreements_of(rows, wanted, dims, out);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn product(a: &[i8], b: &[i8]) -> i32 {
        super::product_of(a, b)
    }

    pub(super) fn is_here() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
    }
}

/// How many bits each row shares with the wanted one, of those that are compared.
pub(super) fn agreements(rows: &[u64], wanted: &[u64], dims: u32, out: &mut Vec<u16>) {
    #[cfg(target_arch = "x86_64")]
    if wide::is_here() {
        // SAFETY: the processor has what the function is compiled for.
        #[expect(unsafe_code, reason = "the only way to use what the processor has beyond the baseline")]
        return unsafe { wide::agreements(rows, wanted, dims, out) };
    }
    agreements_of(rows, wanted, dims, out);
}

/// The product of two rows of bytes.
pub(super) fn product(a: &[i8], b: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_here() {
        // SAFETY: the processor has what the function is compiled for.
        #[expect(unsafe_code, reason = "the only way to use what the processor has beyond the baseline")]
        return unsafe { wide::product(a, b) };
    }
    product_of(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_loops_say_what_the_plain_ones_say() {
        for words in [1, 3, 4, 6, 12] {
            let rows: Vec<u64> =
                (1..=words as u64 * 9).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let wanted = &rows[words..2 * words];
            let (mut plain, mut wide) = (Vec::new(), Vec::new());
            agreements_of(&rows, wanted, words as u32 * 64, &mut plain);
            agreements(&rows, wanted, words as u32 * 64, &mut wide);
            assert_eq!(plain, wide);
            assert_eq!((plain.len(), plain[1]), (9, words as u16 * 64));
        }
        for length in [0, 1, 31, 256, 384] {
            let a: Vec<i8> = (0..length).map(|n| (n * 37 % 255 - 127) as i8).collect();
            let b: Vec<i8> = (0..length).map(|n| (n * 91 % 255 - 127) as i8).collect();
            assert_eq!(product(&a, &b), product_of(&a, &b));
        }
    }
}
