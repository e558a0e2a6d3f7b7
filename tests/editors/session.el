;;; What a user does in Emacs, whichever client of the protocol it has.  -*- lexical-binding: t -*-
;; Prints one line of JSON. The command of the server is in $LSPOOL_COMMAND, words separated by newlines; making the file
;; $LSPOOL_KILL kills it.

(require 'package)
(package-initialize)
(require 'json)

(defvar lspool-command (split-string (getenv "LSPOOL_COMMAND") "\n"))
(defvar lspool-messages nil "What the user was told.")

(defun lspool-wait (what condition)
  "Wait until CONDITION returns non-nil; return that. WHAT names it."
  (let ((deadline (+ (float-time) 40)) found)
    (while (and (not (setq found (funcall condition))) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    (or found (error "No %s" what))))

(defun lspool-contains (text all)
  "Whether one of ALL contains TEXT."
  (seq-some (lambda (it) (string-match-p (regexp-quote text) it)) all))

(defun lspool-goto (text)
  "Move point to the begin of TEXT."
  (goto-char (point-min))
  (search-forward text)
  (goto-char (match-beginning 0)))

(defun lspool-crash (do)
  "Kill the server in the middle of an edit; see `lspool-session' for DO."
  (goto-char (point-max))
  (insert "\ntotal = greet('x')\n")
  (funcall (alist-get 'changed do))
  (advice-add 'message :before
              (lambda (text &rest rest) (when text (push (apply #'format-message text rest) lspool-messages))))
  (write-region "" nil (getenv "LSPOOL_KILL") nil 'quiet)
  (lspool-wait "kill" (lambda () (not (file-exists-p (getenv "LSPOOL_KILL")))))
  (insert "total.uper()\n")
  (funcall (alist-get 'changed do))
  (lspool-goto "total.uper")
  (let ((hover (funcall (alist-get 'hover do))))
    (lspool-wait "error in what was typed"
                 (lambda () (lspool-contains "\"uper\"" (funcall (alist-get 'diagnostics do)))))
    `((hover . ,hover)
      (diagnostics . ,(vconcat (funcall (alist-get 'diagnostics do))))
      (messages . ,(vconcat (reverse lspool-messages))))))

(defun lspool-session (do)
  "DO has the functions of a client: start, diagnostics (texts), hover, line (of the definition), changed (send the edits
now), completion (labels) and stop."
  (find-file "greeting.py")
  (python-mode)
  (funcall (alist-get 'start do))
  (lspool-wait "diagnostics" (alist-get 'diagnostics do))
  (lspool-goto "greet(os")
  (let* ((diagnostics (funcall (alist-get 'diagnostics do)))
         (hover (funcall (alist-get 'hover do)))
         (line (funcall (alist-get 'line do)))
         (completion (progn
                       (goto-char (point-max))
                       (insert "os.getc")
                       (funcall (alist-get 'changed do))
                       (funcall (alist-get 'completion do))))
         (crash (and (getenv "LSPOOL_KILL") (lspool-crash do))))
    (princ (json-encode
            `((diagnostics . ,(vconcat diagnostics))
              (hover . ,hover)
              (line . ,line)
              (completion . ,(vconcat completion))
              ,@(and crash `((crash . ,crash))))))
    (terpri))
  (set-buffer-modified-p nil)
  (funcall (alist-get 'stop do)))
